"""What a file that carries a checkpoint says of itself, first of all: its header.

Nothing of a header is believed: whatever is not as it is written here is refused, in words.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, cast

from branchpoint_vmruntime.errors import DamagedError, UsageError
from branchpoint_vmruntime.lineage import (
    BranchName,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Moment,
    Operation,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.naming import (
    BAKED,
    check_branch_name,
    check_label,
    is_set_aside,
)
from branchpoint_vmruntime.lineage.rows import (
    checkpoint_from_row,
    checkpoint_to_row,
    operation_from_row,
    operation_to_row,
    session_from_row,
    session_to_row,
)
from branchpoint_vmruntime.store import DEVICES, FACTS, MEMORY, NONCE, MachineFacts

# A base that came from elsewhere is what its checkpoints stand on, and nothing else: under a key
# that no machine of this host is looked up by, it never becomes what fresh machines start from.
FOREIGN = "imported:"

MAX_HEADER_BYTES = 64 << 20
# Holes cost nothing to carry, but to be read through they do.
MAX_FILE_BYTES = 64 << 30
_MAX_FILES = 100_000
_MAX_TEXT = 64 << 10
_MAX_BYTES_OF = {DEVICES: 64 << 20, FACTS: 64 << 10, NONCE: 64 << 10}

_ID = re.compile(r"[0-9a-f]{8,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DISK = re.compile(r"disk-[0-9]{3,6}\.qcow2")
_PART_OF_A_PATH = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_+.,@-]{0,127}")
_ASIDE = re.compile(r"~[1-9][0-9]*$")
_CALLED_AFTER_BRANCH = (CheckpointKind.PAUSED, CheckpointKind.PARKED)
_MADE = re.compile(r"(paused|parked)-(?P<branch>.+)-[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedFile:
    """A file of a layer or an image: `size` with its holes, `data` at most without, in bytes."""

    name: str
    size: int
    data: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedLayer:
    """A checkpoint's record and its files."""

    checkpoint: Checkpoint
    files: tuple[CarriedFile, ...]

    @property
    def digests(self) -> dict[str, str]:
        """The sha256 of each file."""
        return {file.name: file.sha256 for file in self.files}


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedImage:
    """The image below: what its files came out as. `files` is empty unless it is carried along."""

    digest: str
    sha256: Mapping[str, str]
    files: tuple[CarriedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A header. The layers are a chain, from the base to the checkpoint that is carried.

    The files come in this order: the image's, then those of each layer.
    """

    session: SessionRecord
    branch: BranchName
    facts: MachineFacts
    image: CarriedImage
    layers: tuple[CarriedLayer, ...]
    operations: tuple[Operation, ...] = ()
    pins: tuple[CheckpointId, ...] = ()

    @property
    def checkpoint(self) -> Checkpoint:
        """The one that is carried."""
        return self.layers[-1].checkpoint

    @property
    def data_bytes(self) -> int:
        """What all files hold at most, holes left out."""
        layers = sum(file.data for layer in self.layers for file in layer.files)
        return layers + sum(file.data for file in self.image.files)


def header_of(package: Package) -> bytes:
    """As it is written; UsageError if there is more to say than a header has room for."""
    said = {
        "session": session_to_row(package.session),
        "branch": package.branch,
        "facts": asdict(package.facts),
        "image": asdict(package.image),
        "layers": [
            {
                "checkpoint": checkpoint_to_row(layer.checkpoint),
                "files": [asdict(file) for file in layer.files],
            }
            for layer in package.layers
        ],
        "operations": [operation_to_row(operation) for operation in package.operations],
        "pins": package.pins,
    }
    header = json.dumps(said, sort_keys=True).encode()
    if len(header) > MAX_HEADER_BYTES:
        raise UsageError(
            f"the records of this checkpoint take {len(header) >> 20} MB; a file has room for"
            f" {MAX_HEADER_BYTES >> 20} MB of them",
            hint="export an earlier checkpoint",
        )
    return header


def parse_header(header: bytes) -> Package:
    """The reverse of `header_of`; DamagedError if it says what none would."""
    try:
        package = _package(json.loads(header))
        _check_chain(package)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
        _refuse(f"its header cannot be read: {error}")
    for layer in package.layers:
        _check_files_of_layer(layer, package.facts)
    _check_files_of_image(package.image)
    return package


def _refuse(why: str) -> NoReturn:
    raise DamagedError(
        f"this is not a file as `branchpoint export` writes it: {why}",
        hint="export it again, or fetch it once more; nothing was imported",
    )


def _package(raw: Mapping[str, Any]) -> Package:
    image = raw["image"]
    return Package(
        session=session_from_row(_row(raw["session"])),
        branch=_branch(raw["branch"]),
        facts=_facts(raw["facts"]),
        image=CarriedImage(
            digest=_matching(_SHA256, image["digest"]),
            sha256={_text(k): _matching(_SHA256, v) for k, v in image["sha256"].items()},
            files=_files(image["files"]),
        ),
        layers=tuple(
            CarriedLayer(checkpoint=_checkpoint(each["checkpoint"]), files=_files(each["files"]))
            for each in _list(raw["layers"])
        ),
        operations=tuple(_operation(each) for each in _list(raw["operations"])),
        pins=tuple(CheckpointId(_matching(_ID, each)) for each in _list(raw["pins"])),
    )


def _files(raw: Any) -> tuple[CarriedFile, ...]:
    return tuple(
        CarriedFile(
            name=_text(each["name"]),
            size=_size(each["size"]),
            data=_size(each["data"]),
            sha256=_matching(_SHA256, each["sha256"]),
        )
        for each in _list(raw)
    )


def _facts(raw: Any) -> MachineFacts:
    facts = MachineFacts(**raw)
    for name, value in asdict(facts).items():
        kind = int if name in {"memory_mib", "vcpus", "protocol", "tsc_khz"} else str
        if type(value) is not kind:
            raise TypeError(f"{name} is {value!r}")
    if not 0 < facts.memory_mib <= MAX_FILE_BYTES >> 20:
        raise ValueError(f"a memory of {facts.memory_mib} MiB")
    return facts


def _checkpoint(raw: Any) -> Checkpoint:
    checkpoint = checkpoint_from_row(_row(raw, long=("moment",)))
    _matching(_ID, checkpoint.id)
    if checkpoint.label:
        _check_label(checkpoint)
    if checkpoint.branch != BAKED:
        _branch(checkpoint.branch)
    _check_cost(checkpoint.cost)
    _check_moment(checkpoint.moment)
    return checkpoint


def _check_label(checkpoint: Checkpoint) -> None:
    # Such a label has a branch's name in it: with its mark, and as long as a label may be alone.
    if checkpoint.kind in _CALLED_AFTER_BRANCH and (made := _MADE.fullmatch(checkpoint.label)):
        _branch(made["branch"])
    else:
        check_label(checkpoint.label)


def _check_cost(cost: CheckpointCost) -> None:
    numbers = [value for name, value in asdict(cost).items() if name != "phases_ms"]
    for number in (*numbers, *cost.phases_ms.values()):
        _number(number)


def _check_moment(moment: Moment) -> None:
    cells = [*moment.done, *(request.cell for request in moment.open)]
    for cell in [*cells, moment.cell] if moment.cell else cells:
        if (type(cell.id), type(cell.count), type(cell.source)) != (str, int, str):
            raise TypeError("a cell that is none")
    for request in moment.open:
        _text(request.id)
        _text(request.question, most=MAX_HEADER_BYTES)
    if (type(moment.count), type(moment.position)) != (int, int):
        raise TypeError("a moment that is none")
    _text(moment.incarnation)


def _operation(raw: Any) -> Operation:
    fixed = {name: value for name, value in raw.items() if name != "total_ms"}
    _row(fixed)
    operation = operation_from_row(cast("Any", {**fixed, "total_ms": _number(raw["total_ms"])}))
    for phase in operation.phases_ms.values():
        _number(phase)
    return operation


def _row(raw: Any, *, long: tuple[str, ...] = ()) -> Any:
    """Columns, each of them text or nothing, as those of the journal that are taken along."""
    for name, value in raw.items():
        if value is not None:
            _text(value, most=MAX_HEADER_BYTES if name in long else _MAX_TEXT)
    return raw


def _branch(raw: Any) -> BranchName:
    name = _text(raw)
    # What an earlier kernel left bears a mark that nobody may ask for.
    check_branch_name(_ASIDE.sub("", name) if is_set_aside(name) else name)
    return BranchName(name)


def _text(raw: Any, *, most: int = _MAX_TEXT) -> str:
    if not isinstance(raw, str) or len(raw) > most:
        raise TypeError(f"{str(raw)[:80]!r} is not a text of at most {most} characters")
    return raw


def _matching(pattern: re.Pattern[str], raw: Any) -> str:
    if not isinstance(raw, str) or pattern.fullmatch(raw) is None:
        raise ValueError(f"{str(raw)[:80]!r} is not of the form {pattern.pattern}")
    return raw


def _size(raw: Any) -> int:
    if type(raw) is not int or not 0 <= raw <= MAX_FILE_BYTES:
        raise ValueError(f"a file of {str(raw)[:40]} bytes; at most {MAX_FILE_BYTES} are taken")
    return raw


def _number(raw: Any) -> float:
    if type(raw) not in (int, float) or not math.isfinite(raw):
        raise ValueError(f"{str(raw)[:40]} where a number should be")
    return raw


def _list(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise TypeError(f"{str(cast('object', raw))[:80]!r} where a list should be")
    found = cast("list[Any]", raw)
    if len(found) > _MAX_FILES:
        raise ValueError(f"{len(found)} things in a row; at most {_MAX_FILES} are taken")
    return found


def _check_chain(package: Package) -> None:
    _matching(_ID, package.session.id)
    if package.image.digest != package.facts.image:
        _refuse("it is of one image and names another")
    chain = [layer.checkpoint for layer in package.layers]
    if len(chain) < 2:
        _refuse("it carries no checkpoint above a base")
    if len({checkpoint.id for checkpoint in chain}) != len(chain):
        _refuse("it carries a checkpoint twice")
    for place, checkpoint in enumerate(chain):
        parent = chain[place - 1].id if place else None
        session = package.session.id if place else None
        if (checkpoint.parent, checkpoint.session) != (parent, session):
            _refuse(f"checkpoint {checkpoint.id} does not follow from the one before it")
        if (checkpoint.kind is CheckpointKind.BASE) != (place == 0):
            _refuse(f"checkpoint {checkpoint.id} is not the base, or should be")


def _check_files_of_layer(layer: CarriedLayer, facts: MachineFacts) -> None:
    names = [file.name for file in layer.files]
    checkpoint = layer.checkpoint
    if missing := {MEMORY, DEVICES, FACTS, NONCE} - set(names):
        _refuse(f"checkpoint {checkpoint.id} lacks {', '.join(sorted(missing))}")
    _check_files(layer.files, lambda name: name in _MAX_BYTES_OF or name == MEMORY or _disk(name))
    for file in layer.files:
        if file.size > _MAX_BYTES_OF.get(file.name, MAX_FILE_BYTES):
            _refuse(f"{file.name} of checkpoint {checkpoint.id} is said to hold {file.size} bytes")
        whole = file.name == MEMORY and checkpoint.kind is CheckpointKind.BASE
        if whole and file.size != facts.memory_mib << 20:
            _refuse(f"a memory of {facts.memory_mib} MiB is said to hold {file.size} bytes")


def _disk(name: str) -> bool:
    return _DISK.fullmatch(name) is not None


def _check_files_of_image(image: CarriedImage) -> None:
    _check_files(
        image.files,
        lambda name: all(_PART_OF_A_PATH.fullmatch(part) for part in name.split("/")),
    )
    places = {file.name for file in image.files}
    for name in places:
        above = name.split("/")[:-1]
        if any("/".join(above[: depth + 1]) in places for depth in range(len(above))):
            _refuse(f"{name!r} is below a file")


def _check_files(files: tuple[CarriedFile, ...], allowed: Callable[[str], bool]) -> None:
    names = [file.name for file in files]
    if len(set(names)) != len(names):
        _refuse("it carries a file twice")
    for file in files:
        if not allowed(file.name):
            _refuse(f"it carries a file named {file.name[:80]!r}")
        if file.data > file.size:
            _refuse(f"{file.name!r} is said to hold more than its size")
