"""What branchpoint.yaml says of the image: packages by name, and nothing but packages by name."""

import pytest

from branchpoint_vmruntime.errors import ManifestError
from branchpoint_vmruntime.image.wanted import ImageSpec
from branchpoint_vmruntime.manifest import Manifest


def test_packages_are_kept_in_the_order_of_their_names() -> None:
    text = 'image: {python: [Tabulate, "SciPy >= 1.11, < 2"], debian: [graphviz, g++]}'
    assert Manifest.parse(text).image == ImageSpec(
        python=("scipy<2,>=1.11", "tabulate"), debian=("g++", "graphviz")
    )


def test_one_package_need_not_be_in_a_list() -> None:
    assert Manifest.parse("image: {debian: graphviz}").image.debian == ("graphviz",)


@pytest.mark.parametrize("text", ["image: {}", "image: {python: []}", "machine: 1vcpu-1gb"])
def test_nothing_asked_for_is_the_image_every_machine_has(text: str) -> None:
    assert Manifest.parse(text).image == ImageSpec()


@pytest.mark.parametrize(
    "package",
    [
        "https://example.org/a.whl",
        "git+https://example.org/a",
        "a @ https://example.org/a.whl",
        "./wheels/a.whl",
        "../a",
        "/etc/passwd",
        "-r",
        "--index-url=http://example.org",
        "a --pre",
        "a; python_version < '3.12'",
        "a=1",
        "a b",
        "",
        "a" * 300,
    ],
)
def test_what_is_no_name_of_a_python_package_is_quoted_and_refused(package: str) -> None:
    with pytest.raises(ManifestError, match="line 2: ") as refused:
        Manifest.parse(f"image:\n  python: [{package!r}]")
    assert package[:100] in str(refused.value)
    assert "scikit-learn" in str(refused.value)


@pytest.mark.parametrize(
    "package", ["a=1.0", "a:amd64", "a/trixie", "./a.deb", "a-", "-a", "A", "a*", "a;b", "a b", ""]
)
def test_what_is_no_name_of_a_debian_package_is_quoted_and_refused(package: str) -> None:
    with pytest.raises(ManifestError, match="line 1: ") as refused:
        Manifest.parse(f"image: {{debian: [{package!r}]}}")
    assert repr(package) in str(refused.value)
    assert "graphviz" in str(refused.value)


def test_a_package_at_two_versions_is_refused() -> None:
    with pytest.raises(ManifestError, match="a is asked for as a and as a==1; name it once"):
        Manifest.parse("image: {python: [a, A==1]}")


def test_a_field_that_is_none_is_told_which_there_are() -> None:
    with pytest.raises(ManifestError, match="'pip' is not a field here; there is: python, debian"):
        Manifest.parse("image: {pip: [a]}")
