"""Which hosts a secret goes to."""

import pytest

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.binding import Binding, split_host

COVERED = [
    ("api.example.org", "api.example.org", True),
    ("api.example.org", "API.Example.ORG.:443", True),
    ("api.example.org", "xapi.example.org", False),
    ("api.example.org", "api.example.org.example.com", False),
    ("*.example.org", "api.example.org", True),
    ("*.example.org", "a.b.example.org:8443", True),
    ("*.example.org", "example.org", False),
    ("*.example.org", "evilexample.org", False),
    ("api.example.org:8443", "api.example.org:8443", True),
    ("api.example.org:8443", "api.example.org:443", False),
    ("api.example.org:8443", "api.example.org", False),
    ("bücher.example", "xn--bcher-kva.example", True),
    ("[::1]:8080", "[::1]:8080", True),
    ("127.0.0.1", "127.0.0.1:5000", True),
]


@pytest.mark.parametrize(("bound", "host", "covered"), COVERED)
def test_a_binding_covers_its_host_and_no_other(bound: str, host: str, *, covered: bool) -> None:
    assert Binding.parse(bound).covers(*split_host(host)) == covered


@pytest.mark.parametrize(
    "text",
    ["", "*", "*.", "*.*.example.org", "a b", "https://example.org", "u@example.org", "a:0", "a:x"],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Binding.parse(text)
    assert refusal.value.hint


@pytest.mark.parametrize("text", ["api.example.org", "*.example.org:8443", "[::1]:80"])
def test_a_binding_is_written_as_it_was_given(text: str) -> None:
    assert str(Binding.parse(text)) == text


OVERLAPPING = [
    ("a.example.org", "a.example.org:443", True),
    ("a.example.org:80", "a.example.org:443", False),
    ("*.example.org", "a.example.org", True),
    ("*.example.org", "*.a.example.org", True),
    ("*.example.org", "example.org", False),
    ("a.example.org", "b.example.org", False),
]


@pytest.mark.parametrize(("one", "other", "overlap"), OVERLAPPING)
def test_bindings_overlap_if_one_host_is_meant_by_both(
    one: str, other: str, *, overlap: bool
) -> None:
    first, second = Binding.parse(one), Binding.parse(other)
    assert first.overlaps(second) == second.overlaps(first) == overlap
