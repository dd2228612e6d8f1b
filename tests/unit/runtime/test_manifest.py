"""branchpoint.yaml: what it may say, and for all else the line that says it."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.budget import Budgets, IdlePause
from branchpoint_vmruntime.errors import ManifestError
from branchpoint_vmruntime.foundation import KERNEL_ARGV
from branchpoint_vmruntime.manifest import FILE_NAME, Manifest
from branchpoint_vmruntime.spec import MachineSize

TOP = ["machine", "kernel", "budgets", "egress", "secrets", "files", "prices", "idle_pause"]
FIELD_NAMES = st.sampled_from(
    [
        *("memory", "machines", "tokens", "money", "forks", "time", "vcpus", "allow", "host"),
        *("hosts", "ports", "methods", "private", "inspect", "from", "header", "env", "file"),
        *("currency", "models", "input", "output", "TOKEN", "*"),
    ]
)
KERNEL = ("julia", "-i", "{connection_file}")


@pytest.mark.parametrize("text", ["", "\n\n", "# a comment\n", "---\n"])
def test_nothing_said_is_everything_by_default(text: str) -> None:
    manifest = Manifest.parse(text)
    assert manifest == Manifest()
    assert manifest.kernel_argv == KERNEL_ARGV


@pytest.mark.parametrize(
    ("name", "memory_mib", "vcpus"),
    [
        ("1vcpu-1gb", 1024, 1),
        ("2vcpu-4gb", 4096, 2),
        ("1vcpu-768mb", 768, 1),
        ("1vcpu-1.5gb", 1536, 1),
        ("4VCPU-2GB", 2048, 4),
        ("16vcpu-64gb", 65536, 16),
        ("1vcpu-256mb", 256, 1),
    ],
)
def test_a_size_by_name(name: str, memory_mib: int, vcpus: int) -> None:
    size = Manifest.parse(f"machine: {name}").size
    assert size == MachineSize(memory_mib=memory_mib, vcpus=vcpus)


@pytest.mark.parametrize(
    ("text", "memory_mib", "vcpus"),
    [
        ("{memory: 2gb, vcpus: 3}", 2048, 3),
        ("{memory: 1536mb}", 1536, 1),
        ("{memory: 0.5gb}", 512, 1),
        ("{vcpus: 2}", MachineSize().memory_mib, 2),
        ("{}", MachineSize().memory_mib, MachineSize().vcpus),
        ("{memory: '2gb', vcpus: '3'}", 2048, 3),
    ],
)
def test_a_size_in_figures(text: str, memory_mib: int, vcpus: int) -> None:
    size = Manifest.parse(f"machine: {text}").size
    assert size == MachineSize(memory_mib=memory_mib, vcpus=vcpus)


@given(st.integers(1, 16), st.integers(256, 65536))
def test_a_size_means_the_same_by_name_and_in_figures(vcpus: int, memory_mib: int) -> None:
    by_name = Manifest.parse(f"machine: {vcpus}vcpu-{memory_mib}mb")
    in_figures = Manifest.parse(f"machine:\n  vcpus: {vcpus}\n  memory: {memory_mib}mb")
    assert by_name == in_figures
    assert by_name.size == MachineSize(memory_mib=memory_mib, vcpus=vcpus)


def test_a_kernel_is_its_command_with_its_arguments() -> None:
    text = "kernel:\n  - julia\n  - -i\n  - '{connection_file}'\n"
    assert Manifest.parse(text).kernel_argv == KERNEL


def test_the_connection_file_may_be_part_of_an_argument() -> None:
    text = "kernel: [deno, jupyter, '--conn={connection_file}']"
    assert Manifest.parse(text).kernel_argv[-1] == "--conn={connection_file}"


def test_braces_that_mean_nothing_to_us_are_left_to_the_kernel() -> None:
    text = "kernel: [R, -e, 'f({x})', '{connection_file}']"
    assert Manifest.parse(text).kernel_argv == ("R", "-e", "f({x})", "{connection_file}")


def test_machine_and_kernel_can_both_be_given() -> None:
    manifest = Manifest.parse("kernel: [julia, -i, '{connection_file}']\nmachine: 2vcpu-4gb\n")
    assert (manifest.kernel_argv, manifest.size.vcpus) == (KERNEL, 2)


REFUSED = [
    ("machin: 1vcpu-1gb", 1, "'machin' is not a field here; there is: machine, image, kernel"),
    (
        "machine:\n  memory: 1gb\n  cpus: 2",
        3,
        "'cpus' is not a field here; there is: memory, vcpus",
    ),
    ("\n\nmachine: big", 3, "'big': a machine is a name such as 1vcpu-1gb, or memory and vcpus"),
    ("machine:", 1, "a machine is a name such as"),
    ("machine: 1vcpu-1", 1, "a machine is a name such as"),
    ("machine: 1.5vcpu-1gb", 1, "a machine is a name such as"),
    ("machine: [1]", 1, "expected a plain value; there is a list"),
    ("machine: 1vcpu-255mb", 1, "memory must be from 256 MB to 65536 MB, not 255 MB"),
    ("machine: 1vcpu-64.001gb", 1, "memory must be from 256 MB to 65536 MB"),
    ("machine: 0vcpu-1gb", 1, "vcpus must be from 1 to 16, not 0"),
    ("machine: 17vcpu-1gb", 1, "vcpus must be from 1 to 16"),
    ("machine:\n  vcpus: 17", 2, "vcpus must be from 1 to 16"),
    ("machine:\n  memory: 1024", 2, "'1024': memory is written like 1gb or 1536mb"),
    ("machine:\n  memory: -1gb", 2, "memory is written like 1gb or 1536mb"),
    ("machine:\n  memory: 1e3mb", 2, "memory is written like 1gb or 1536mb"),
    ("machine:\n  memory: 1gb\n  vcpus: two", 3, "'two' is not a whole number such as 2"),
    ("machine:\n  vcpus: 1.0", 2, "'1.0' is not a whole number"),
    ("machine:\n  vcpus: -1", 2, "'-1' is not a whole number"),
    ("machine:\n  vcpus:\n    - 1", 3, "expected a plain value"),
    ("machine: 1vcpu-1gb\nmachine: 2vcpu-2gb", 2, "'machine' is given twice"),
    ("kernel: python3", 1, "the command and its arguments; there is 'python3'"),
    ("machine: 1vcpu-1gb\nkernel: {}", 2, "kernel is a list: the command and its arguments"),
    ("\nkernel: [python3, -m, x]", 2, "the kernel's command must have {connection_file}"),
    ("kernel: []", 1, "the kernel's command must have {connection_file}"),
    ("kernel:\n  - python3\n  - {connection_file}", 3, "expected a plain value"),
    ("- machine", 1, "idle_pause, store; there is a list"),
    ("\njust text", 2, "idle_pause, store; there is 'just text'"),
    ("? [a]\n: b", 1, "expected a plain value"),
    ("machine: 1vcpu-1gb\nkernel: [a", 2, "not YAML"),
    ("a: b: c", 1, "not YAML"),
    ("machine:\n\t- x", 2, "not YAML"),
    ("machine: 1vcpu-1gb\n---\nmachine: 2vcpu-2gb", 2, "not YAML"),
    ("machine: *size", 1, "not YAML"),
]


@pytest.mark.parametrize(("text", "line", "why"), REFUSED)
def test_what_cannot_be_is_an_error_with_file_line_and_reason(
    tmp_path: Path, text: str, line: int, why: str
) -> None:
    file = tmp_path / FILE_NAME
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        Manifest.load(file)
    assert str(caught.value).startswith(f"{file}, line {line}: ")
    assert why in str(caught.value)


VALUES = st.recursive(
    st.sampled_from(["1gb", "pip", "x.example", "env", "none", "2h", "5", "-1", "", "a", "*"])
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD_NAMES, inner, max_size=4),
    max_leaves=12,
)
ANY_YAML = (
    st.text(max_size=60)
    | st.text(alphabet="machine: kernel[]{}1vcpu-gb.\n -*&", max_size=60)
    | st.dictionaries(st.sampled_from(TOP), VALUES, max_size=4).map(partial(json.dumps, indent=1))
)


@given(ANY_YAML)
def test_any_text_at_all_is_a_manifest_or_an_error_with_a_line(text: str) -> None:
    try:
        manifest = Manifest.parse(text)
    except ManifestError as error:
        found = re.match(r"branchpoint\.yaml, line ([0-9]+): .", str(error))
        # YAML ends lines in more ways than one.
        line = 0 if found is None else int(found[1])
    else:
        line = 1
        assert 256 <= manifest.size.memory_mib <= 65536
    assert 1 <= line <= len(text) + 1


def test_what_is_nested_without_end_is_refused() -> None:
    with pytest.raises(ManifestError, match="line 1: nested too deep"):
        Manifest.parse("[" * 100_000)


def test_a_character_that_yaml_cannot_read_has_its_line() -> None:
    with pytest.raises(ManifestError, match="line 3: not YAML: special characters"):
        Manifest.parse("machine: 1vcpu-1gb\n# so far\n# so \0 good\n")


@pytest.mark.parametrize("field", ["machine: 1vcpu-{}gb", "machine: {{memory: {}gb}}"])
@pytest.mark.parametrize("number", ["9" * 400, "0." + "9" * 5000, "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_number_of_any_length_or_script_is_refused_as_such(field: str, number: str) -> None:
    with pytest.raises(ManifestError, match="line 1"):
        Manifest.parse(field.format(number))


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"no\.yaml cannot be read: No such file"):
        Manifest.load(tmp_path / "no.yaml")


def test_a_file_that_is_no_text_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"# gr\xfc\xdfe\n")
    with pytest.raises(ManifestError, match=r"latin\.yaml cannot be read: it is not UTF-8"):
        Manifest.load(tmp_path / "latin.yaml")


def test_a_manifest_is_found_beside_the_notebook(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("machine: 2vcpu-2gb")
    assert Manifest.beside(tmp_path).size.vcpus == 2


def test_without_one_beside_it_a_notebook_gets_the_default(tmp_path: Path) -> None:
    assert Manifest.beside(tmp_path) == Manifest()


def test_the_default_kernel_s_command_is_one_a_manifest_could_give() -> None:
    text = "kernel: [" + ", ".join(f"'{part}'" for part in KERNEL_ARGV) + "]"
    assert Manifest.parse(text) == Manifest()


@pytest.mark.parametrize(
    ("text", "budgets"),
    [
        ("{memory: 4gb, machines: 8}", Budgets(memory_bytes=4 << 30, machines=8)),
        ("{memory: 1536mb}", Budgets(memory_bytes=1536 << 20)),
        ("{machines: 1}", Budgets(machines=1)),
        ("{}", Budgets()),
    ],
)
def test_what_the_machines_may_take_together(text: str, budgets: Budgets) -> None:
    assert Manifest.parse(f"budgets: {text}").budgets == budgets


@pytest.mark.parametrize(
    "budgets", ["8", "{machines: 0}", "{machines: many}", "{memory: 4}", "{cpus: 2}"]
)
def test_a_budget_that_cannot_be_is_refused_with_its_line(budgets: str) -> None:
    with pytest.raises(ManifestError, match="line 2"):
        Manifest.parse(f"machine: 1vcpu-1gb\nbudgets: {budgets}")


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ("20m", IdlePause(others_s=1200.0, current_s=None)),
        ("off", IdlePause(others_s=None, current_s=None)),
        ("{others: 20m, current: 2h}", IdlePause(others_s=1200.0, current_s=7200.0)),
        ("{current: 90s}", IdlePause(others_s=900.0, current_s=90.0)),
        ("{others: off}", IdlePause(others_s=None, current_s=None)),
        ("{}", IdlePause()),
    ],
)
def test_after_how_long_idle_branches_are_paused(text: str, idle: IdlePause) -> None:
    assert Manifest.parse(f"idle_pause: {text}").idle_pause == idle


@pytest.mark.parametrize("idle", ["20", "soon", "0m", "{others: -1m}", "{all: 1m}", "[20m]"])
def test_an_idle_pause_that_cannot_be_is_refused_with_its_line(idle: str) -> None:
    with pytest.raises(ManifestError, match="line 2"):
        Manifest.parse(f"machine: 1vcpu-1gb\nidle_pause: {idle}")


def test_what_is_no_time_for_an_idle_pause_is_told_with_what_is() -> None:
    with pytest.raises(ManifestError, match=r"'soon' is not a time such as .*, nor off"):
        Manifest.parse("idle_pause: soon")
