"""Finds placeholders in a request's head, and writes a secret where it belongs; pure functions."""

import base64
import binascii
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote_to_bytes

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.placeholders import LOOKS_LIKE_ONE, MARK

Headers = tuple[tuple[bytes, bytes], ...]

_PLACE = "{}"
_LEAST_BYTES_WITHIN = 8
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# They say where a message ends and where it goes: to set them would be to forge another request.
_NOT_TO_BE_SET = {"host", "content-length", "transfer-encoding", "connection", "te", "upgrade"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A header to set: its name, and what stands before and after the secret."""

    name: bytes
    before: bytes
    after: bytes

    @classmethod
    def parse(cls, text: str) -> "Template | None":
        """From `NAME: …{}…`; None if it is empty; UsageError in words."""
        if not text:
            return None
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        hint = "give it as 'Authorization: Bearer {}', with {} where the secret goes"
        if not colon or not _TOKEN.fullmatch(name) or value.count(_PLACE) != 1:
            raise UsageError(f"{text!r} is no header with a place for a secret", hint=hint)
        if not value.isprintable():
            raise UsageError(f"{text!r} holds a control character", hint=hint)
        if name.lower() in _NOT_TO_BE_SET:
            raise UsageError(f"a secret cannot be the header {name}", hint=hint)
        before, _, after = value.partition(_PLACE)
        return cls(name=name.encode(), before=before.encode(), after=after.encode())

    def means(self, name: bytes) -> bool:
        """Whether a header of that name is the one."""
        return name.lower() == self.name.lower()

    def fill(self, value: bytes) -> tuple[bytes, bytes]:
        """The header, with the secret in it."""
        return self.name, self.before + value + self.after


def placeholders_in(target: bytes, headers: Headers, known: Iterable[str]) -> set[str]:
    """What of `known` is in a request's head, and whatever else looks like one of ours."""
    marked = [text for text in _texts(target, headers) if MARK in text]
    if not marked:
        return set()
    found: set[str] = set()
    words = [(word, word.encode()) for word in known]
    for text in marked:
        found.update(word for word, raw in words if raw in text)
        found.update(match[0].decode() for match in LOOKS_LIKE_ONE.finditer(text))
    return found


def fill_target(target: bytes, values: Mapping[str, bytes]) -> bytes:
    """A request's target with secrets, percent-encoded, in place of their placeholders."""
    for placeholder, value in values.items():
        written = quote(value, safe="").encode()
        target = _in_any_encoding(placeholder).sub(lambda _, to=written: to, target)
    return target


def fill_value(value: bytes, values: Mapping[str, bytes]) -> bytes:
    """A header's value with secrets in place of placeholders, inside Basic credentials as well."""
    plain = _basic_credentials(value)
    if plain is not None and (filled := _replaced(plain, values)) != plain:
        return value.partition(b" ")[0] + b" " + base64.b64encode(filled)
    return _replaced(value, values)


def forms(value: bytes) -> set[bytes]:
    """How a secret could be written by a server that sends back what it got."""
    text = value.decode()
    written = {
        text,
        quote(text, safe=""),
        quote(text),
        quote_plus(text),
        html.escape(text),
        *_in_json(text),
    }
    return {form.encode() for form in written} | _in_base64(value)


def credentials(value: bytes) -> bytes | None:
    """The part of a header's value that is Basic credentials as sent; None if it is none."""
    return value.partition(b" ")[2].strip() if _basic_credentials(value) is not None else None


def lent_masks(basic: bytes) -> set[bytes]:
    """What must not come back of Basic credentials, given with their scheme."""
    sent = basic.partition(b" ")[2]
    password = base64.b64decode(sent).partition(b":")[2]
    return {sent, *forms(password)} if password else {sent}


def _in_base64(value: bytes) -> set[bytes]:
    """By itself, and, if it is long enough to be told from chance, in the middle of other text."""
    found: set[bytes] = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        found.add(encode(value).rstrip(b"="))
        if len(value) < _LEAST_BYTES_WITHIN:
            continue
        for before in (1, 2, 3):
            written = encode(bytes(before) + value)
            # Signs at either end hold bits of what is beside it as well.
            found.add(written[-(-before * 8 // 6) : (before + len(value)) * 8 // 6])
    return found


def _in_json(text: str) -> set[str]:
    written = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return written | {form.replace("/", "\\/") for form in written}


def _texts(target: bytes, headers: Headers) -> Iterator[bytes]:
    yield unquote_to_bytes(target)
    for _, value in headers:
        yield value
        plain = _basic_credentials(value)
        if plain is not None:
            yield plain


def _basic_credentials(value: bytes) -> bytes | None:
    scheme, _, written = value.strip().partition(b" ")
    if scheme.lower() != b"basic":
        return None
    written = written.strip()
    try:
        return base64.b64decode(written + b"=" * (-len(written) % 4), validate=True)
    except binascii.Error:
        return None


def _replaced(text: bytes, values: Mapping[str, bytes]) -> bytes:
    for placeholder, value in values.items():
        text = text.replace(placeholder.encode(), value)
    return text


@lru_cache(maxsize=1024)
def _in_any_encoding(placeholder: str) -> re.Pattern[bytes]:
    signs = (rb"(?:%s|%%(?i:%02x))" % (re.escape(sign.encode()), ord(sign)) for sign in placeholder)
    return re.compile(b"".join(signs))
