"""The manifest in a notebook's metadata: what it may say, and the line that an error names."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.budget import Budgets
from branchpoint_vmruntime.errors import ManifestError
from branchpoint_vmruntime.manifest import Manifest
from branchpoint_vmruntime.manifest.embedded import says_manifest


def notebook(folder: Path, said: object, *, source: str = "1 + 1", output: object = None) -> Path:
    """A notebook as Jupyter writes it, with this in its metadata."""
    cell: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "id": "one",
        "metadata": {},
        "outputs": [
            {"output_type": "display_data", "metadata": {}, "data": {"application/json": output}}
        ],
        "source": [source],
    }
    kernelspec = {"display_name": "Python 3 (microVM)", "name": "branchpoint"}
    document: dict[str, object] = {
        "cells": [cell],
        "metadata": {"kernelspec": kernelspec, "branchpoint": said},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    file = folder / "analysis.ipynb"
    file.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return file


def refusal(file: Path) -> str:
    with pytest.raises(ManifestError) as caught:
        Manifest.load(file)
    return str(caught.value)


def line_of(file: Path, text: str) -> int:
    """The line of a file that ends with this, from 1."""
    lines = file.read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.strip() == text]
    return found


def test_a_notebook_says_what_its_machine_is_like(tmp_path: Path) -> None:
    said = {"machine": "2vcpu-4gb", "budgets": {"machines": 3}}
    manifest = Manifest.load(notebook(tmp_path, said))
    assert (manifest.size.vcpus, manifest.size.memory_mib) == (2, 4096)
    assert manifest.budgets.machines == 3


def test_what_it_says_counts_in_place_of_the_same_field_beside_it(tmp_path: Path) -> None:
    (tmp_path / "branchpoint.yaml").write_text(
        "machine: 1vcpu-2gb\nbudgets: {machines: 5}\negress: {allow: [pip]}\n"
    )
    manifest = Manifest.load(notebook(tmp_path, {"budgets": {"memory": "3gb"}}))
    assert manifest.size.memory_mib == 2048
    assert manifest.budgets == Budgets(memory_bytes=3 << 30)
    assert len(manifest.outside.allow) > 0


@pytest.mark.parametrize("said", [None, {}])
def test_a_notebook_that_says_nothing_has_what_is_beside_it(tmp_path: Path, said: object) -> None:
    (tmp_path / "branchpoint.yaml").write_text("machine: 1vcpu-2gb\n")
    file = notebook(tmp_path, said)
    assert Manifest.load(file).size.memory_mib == 2048
    assert says_manifest(file) is (said is not None)


def test_a_notebook_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert Manifest.of_notebook(tmp_path / "none.ipynb", tmp_path) == Manifest()


def test_the_line_is_that_of_the_notebook(tmp_path: Path) -> None:
    file = notebook(tmp_path, {"idle_pause": {"others": "20m"}, "machine": "huge"})
    line = line_of(file, '"machine": "huge"')
    assert f"{file}, line {line}: " in refusal(file)


def test_an_output_that_says_the_same_is_not_what_is_meant(tmp_path: Path) -> None:
    said = {"machine": "huge"}
    file = notebook(tmp_path, said, output={"branchpoint": said}, source='{"branchpoint": 1}')
    lines = file.read_text().splitlines()
    last = max(number for number, line in enumerate(lines, 1) if '"machine": "huge"' in line)
    assert f"line {last}: " in refusal(file)


def test_an_unknown_field_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    assert "'size' is not a field here; there is: machine, image" in refusal(
        notebook(tmp_path, {"size": 1})
    )


def test_what_is_no_fields_at_all_is_refused(tmp_path: Path) -> None:
    assert "expected fields: machine" in refusal(notebook(tmp_path, "1vcpu-2gb"))


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("egress", {"allow": ["pip"]}),
        ("secrets", {"TOKEN": {"host": "api.example.org", "from": "env"}}),
        ("files", ["/etc/passwd"]),
    ],
)
def test_a_notebook_does_not_open_its_own_machine(tmp_path: Path, field: str, said: object) -> None:
    words = refusal(notebook(tmp_path, {field: said}))
    assert f"'{field}' is not said here: it belongs into branchpoint.yaml beside" in words


def test_a_notebook_that_is_cut_off_is_refused_with_its_line(tmp_path: Path) -> None:
    file = notebook(tmp_path, {"machine": "1vcpu-2gb"})
    file.write_text(file.read_text().rstrip().removesuffix("}"))
    assert ": not JSON: " in refusal(file)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    file.write_bytes(b'{"metadata": {"branchpoint": {"machine": "\xff"}}}')
    assert "not UTF-8" in refusal(file)


@pytest.mark.parametrize("text", ["[]", "{}", '{"metadata": []}', '{"x": {"branchpoint": 1}}'])
def test_a_document_without_metadata_says_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.ipynb"
    file.write_text(text)
    assert Manifest.load(file) == Manifest()


@given(
    said=st.dictionaries(
        st.sampled_from(["machine", "kernel", "budgets", "image", "store", "anything"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_whatever_metadata_says_is_a_manifest_or_refused_with_a_line(
    tmp_path_factory: pytest.TempPathFactory, said: object
) -> None:
    file = tmp_path_factory.mktemp("said") / "a.ipynb"
    file.write_text(json.dumps({"cells": [], "metadata": {"branchpoint": said}}, indent=1))
    told = f"{file}, line "
    try:
        Manifest.load(file)
    except ManifestError as error:
        told = str(error)
    assert told.startswith(f"{file}, line ")
