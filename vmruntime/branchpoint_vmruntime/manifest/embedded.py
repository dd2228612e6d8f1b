"""What a document says of its machine: the manifest within a JSON file, at `metadata.branchpoint`.

A notebook is such a file. Lines are those of the file, so that an error names what a person sees.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from branchpoint_vmruntime.errors import ManifestError
from branchpoint_vmruntime.manifest.nodes import Fields, Nodes, Said, text_of

_NAME = "branchpoint"
_KEY = re.compile(rf'"{_NAME}"\s*:\s*')


def embedded_fields(
    document: Path, known: tuple[str, ...], beside: Mapping[str, str]
) -> Mapping[str, Said]:
    """The fields that a document says; none if it says nothing, or is not there.

    `beside` are those of `known` that stand in a file of their own only, each with the reason.
    ManifestError naming the document, and the line of what cannot be.
    """
    text = text_of(document, if_absent="")
    said = _said(document, text)
    if said is None:
        return {}
    begin, end = _place(text, said)
    nodes = Nodes(str(document), lines_before=text.count("\n", 0, begin))
    root = nodes.root(text[begin:end])
    fields: Fields = {} if root is None else nodes.fields(root, known)
    for name, node in fields.items():
        if name in beside:
            nodes.refuse(node, f"{name!r} is not said here: {beside[name]}")
    return {name: (nodes, node) for name, node in fields.items()}


def says_manifest(document: Path) -> bool:
    """Whether a document says anything of its machine. ManifestError if it cannot be read."""
    return _said(document, text_of(document, if_absent="")) is not None


def _said(document: Path, text: str) -> object:
    # Looked for first: a document may be large, and most say nothing of it.
    return _metadata(document, text).get(_NAME) if _KEY.search(text) else None


def _metadata(document: Path, text: str) -> dict[str, Any]:
    try:
        metadata = json.loads(text)["metadata"]
    except json.JSONDecodeError as error:
        raise ManifestError(
            f"{document}, line {error.lineno}: not JSON: {error.msg}",
            hint="save it once more, and restart the kernel",
        ) from error
    except (KeyError, TypeError, RecursionError):
        return {}
    return cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}


def _place(text: str, said: object) -> tuple[int, int]:
    """Where that stands in the text: the same may stand in an output, and metadata comes last."""
    decoder = json.JSONDecoder()
    places = [(it.end(), *decoder.raw_decode(text, it.end())) for it in _KEY.finditer(text)]
    return next((begin, end) for begin, value, end in reversed(places) if value == said)
