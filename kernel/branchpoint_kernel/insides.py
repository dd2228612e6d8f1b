"""What is inside a machine: its files, packages and variables, as it tells when it is asked."""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import BranchpointError, GuestRefusedError

REPR_LIMIT = 200
SURVEY_TIMEOUT_S = 300.0
VARIABLES_TIMEOUT_S = 60.0
_SURVEY = ("python3", "-I", "-S", "/opt/branchpoint/lib/branchpoint_guest/survey.py")
_UNPACKED_LIMIT = 256 << 20


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A path that is not as in the image. `kind` is file, dir, link, ..., or removed.

    `size` is in bytes; `digest` is empty where only size and time tell.
    """

    path: str
    kind: str
    mode: int
    size: int
    mtime_ns: int
    digest: str
    in_image: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Files by path, and versions by name for each kind of package.

    `left_out` is how many files more there are than a survey tells.
    """

    files: Mapping[str, FileFacts]
    packages: Mapping[str, Mapping[str, str]]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A user's variable. `size` is in bytes, `repr` is cut off.

    `exact` says that equal digests mean equal contents, not only an equal look.
    """

    name: str
    type: str
    size: int
    repr: str
    digest: str
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Insides:
    """What a machine told; None where it could not, and then a note says why."""

    survey: Survey | None
    variables: Mapping[str, Variable] | None
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """A file's first bytes, and its whole size in bytes. `kind` is empty if it is not there."""

    kind: str
    size: int
    content: bytes

    @property
    def whole(self) -> bool:
        """Whether nothing was cut off."""
        return len(self.content) == self.size


async def look_into(branch: Branch, name: str) -> Insides:
    """Ask a live machine for everything; `name` is what notes call it."""
    survey, variables = None, None
    notes: list[str] = []
    try:
        survey = read_survey(await _ask(branch))
    except BranchpointError as error:
        notes.append(f"{name} could not tell its files and packages: {error}")
    try:
        told = await branch.variables(repr_limit=REPR_LIMIT, timeout_s=VARIABLES_TIMEOUT_S)
        if told is None:
            notes.append("this kernel does not tell its variables")
        else:
            variables = read_variables(told)
    except BranchpointError as error:
        notes.append(f"{name} could not tell its variables: {error}")
    return Insides(survey=survey, variables=variables, notes=tuple(notes))


async def read_file(branch: Branch, path: str) -> FileContent:
    """Ask a live machine for one file; a relative path starts at /root."""
    told = unpack(await _ask(branch, "--read", path))
    try:
        content = base64.b64decode(told["content"])
        return FileContent(kind=str(told["kind"]), size=int(told["size"]), content=content)
    except (KeyError, TypeError, ValueError) as error:
        raise _garbled(error) from error


def read_survey(output: str) -> Survey:
    """A survey from the line that the guest printed."""
    told = unpack(output)
    try:
        files = [_file_facts(row) for row in told["files"]]
        packages = {
            str(kind): {str(name): str(version) for name, version in found.items()}
            for kind, found in told["packages"].items()
        }
        return Survey(
            files={facts.path: facts for facts in files},
            packages=packages,
            left_out=int(told["left_out"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _garbled(error) from error


def read_variables(told: Iterable[Mapping[str, Any]]) -> dict[str, Variable]:
    """Variables by name, from what the hook in the kernel told."""
    try:
        found = [
            Variable(
                name=str(row["name"]),
                type=str(row["type"]),
                size=int(row["size"]),
                repr=str(row["repr"]),
                digest=str(row["digest"]),
                exact=bool(row["exact"]),
            )
            for row in told
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise _garbled(error) from error
    return {variable.name: variable for variable in found}


def unpack(output: str) -> dict[str, Any]:
    """The JSON that a command of the guest's survey packed into a line."""
    try:
        # What is longer than the limit is cut off, and so is no JSON.
        text = zlib.decompressobj().decompress(base64.b64decode(output), _UNPACKED_LIMIT)
        return dict(json.loads(text))
    except (ValueError, TypeError, zlib.error) as error:
        raise _garbled(error) from error


async def _ask(branch: Branch, *arguments: str) -> str:
    result = await branch.execute([*_SURVEY, *arguments], timeout_s=SURVEY_TIMEOUT_S)
    if result.status != 0:
        said = result.stderr.strip().splitlines()
        raise GuestRefusedError(said[-1] if said else f"it ended with status {result.status}")
    return result.stdout


def _file_facts(row: Sequence[Any]) -> FileFacts:
    path, kind, mode, size, mtime_ns, digest, in_image = row
    return FileFacts(
        str(path), str(kind), int(mode), int(size), int(mtime_ns), str(digest), bool(in_image)
    )


def _garbled(error: Exception) -> GuestRefusedError:
    return GuestRefusedError(f"what it told cannot be read: {error}")
