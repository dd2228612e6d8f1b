"""Whatever a machine sends: no word of ours leaves for a host that it is not for."""

import base64
from urllib.parse import quote_from_bytes

from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.errors import RefusedError
from branchpoint_vmruntime.outside.facts import SecretSource, SecretSpec
from branchpoint_vmruntime.outside.injection import Headers
from branchpoint_vmruntime.outside.vault import Vault

VALUE = b"\xc3\xbc the/value+of=it"
HOSTS = ["api.example.org:443", "www.example.org:443", "\x00", "[", "xn--a"]


def a_vault() -> Vault:
    """Two secrets, one of them set as a header; a fork, and a branch that was dropped."""
    vault = Vault()
    spec = SecretSpec(name="KEY", hosts=("api.example.org",), source=SecretSource())
    vault.add(spec, VALUE.decode())
    other = SecretSpec(name="OTHER", hosts=("*.example.net",), header="", source=SecretSource())
    vault.add(other, "other than that")
    for branch in ("main", "ridge", "lasso"):
        vault.inherit(branch, None if branch == "main" else "main")
        vault.issue(branch)
    return vault


VAULT = a_vault()
WORDS = [
    word.encode() for branch in ("main", "ridge", "lasso") for word in VAULT.issue(branch).values()
]
VAULT.revoke("lasso")

PIECES = st.one_of(st.binary(max_size=20), st.sampled_from([*WORDS, b"branchpoint-", b" ", b"%"]))
TEXTS = st.lists(PIECES, max_size=5).map(b"".join)
WRITTEN = TEXTS.flatmap(
    lambda text: st.sampled_from(
        [
            text,
            b"Basic " + base64.b64encode(text),
            b"basic  " + base64.b64encode(text).rstrip(b"="),
            quote_from_bytes(text, safe="").encode(),
        ]
    )
)
HEADERS = st.lists(st.tuples(st.sampled_from([b"authorization", b"X", b""]), WRITTEN), max_size=4)


@given(
    st.sampled_from(["main", "ridge", "lasso", "unheard of"]),
    st.sampled_from(HOSTS),
    WRITTEN,
    HEADERS.map(tuple),
)
def test_a_request_is_refused_or_goes_out_with_nothing_that_is_not_for_its_host(
    branch: str, host: str, target: bytes, headers: Headers
) -> None:
    try:
        sent = VAULT.inject(branch, host, target, headers)
    except RefusedError:
        return
    said = b"\n".join([target, *(value for _, value in headers)])
    assert not any(word in said for word in WORDS if word.startswith(b"branchpoint-OTHER-"))
    if host != HOSTS[0]:
        assert (sent.target, sent.headers, sent.masks) == (target, headers, ())
        assert not any(word in said for word in WORDS)
    else:
        assert VALUE in sent.masks
        out = b"\n".join([sent.target, *(value for _, value in sent.headers)])
        assert not any(word in out for word in WORDS)
