"""Keeps what one branch gives within bounds: of much text the beginning and the end. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from branchpoint_kernel.printed import Printed

# Of text, in characters. Beyond the most its middle goes, so that this much is left.
MOST_PRINTED = 1_000_000
KEPT_PRINTED = 700_000
BEGINNING = 100_000
# Of displays and errors, in characters. Beyond the most the oldest go; the last always stays.
MOST_SHOWN = 16_000_000
KEPT_SHOWN = 12_000_000
# What a display costs besides its data, so that many small ones count as well.
_OVERHEAD = 1000

Shown = dict[str, Any]


@dataclass
class Gap:
    """Stands where something was left out."""

    what: str
    count: int = 0

    @property
    def words(self) -> str:
        """Such as `… 12 outputs left out …`."""
        return f"… {self.count:,} {self.what}{'' if self.count == 1 else 's'} left out …"


Output = Printed | Gap | Shown


def size_shown(shown: Shown) -> int:
    """About how many characters a display or an error takes to keep."""
    data: dict[str, Any] = shown.get("data") or shown
    return _OVERHEAD + sum(
        len(it) if isinstance(it, str) else len(repr(it)) for it in data.values()
    )


def without_middle(outputs: Sequence[Output]) -> list[Output]:
    """The outputs with no more of what was printed than is kept of it."""
    excess = sum(it.size for it in outputs if isinstance(it, Printed)) - KEPT_PRINTED
    gap = next((it for it in outputs if isinstance(it, Gap) and it.what == "character"), None)
    room, passed, kept = BEGINNING, False, list[Output]()
    for output in outputs:
        if output is gap:
            passed = True
        if not isinstance(output, Printed):
            kept.append(output)
            continue
        if not passed and (gap is not None or output.size <= room):
            room -= output.size
            kept.append(output)
            continue
        if gap is None:
            gap, passed = Gap("character"), True
            kept += [output.beginning(room), gap]
        size, whole = output.size, excess >= output.size
        taken = len(output.beginning(max(0, excess)).text)
        gap.count += taken
        excess -= size if whole else taken
        if not whole:
            kept.append(output)
    return kept


def without_oldest(outputs: Sequence[Output]) -> list[Output]:
    """The outputs with no more displays and errors than are kept of them."""
    shown = [it for it in outputs if isinstance(it, dict)]
    excess = sum(map(size_shown, shown)) - KEPT_SHOWN
    going = set[int]()
    for it in shown[:-1]:
        if excess <= 0:
            break
        excess -= size_shown(it)
        going.add(id(it))
    gap = next((it for it in outputs if isinstance(it, Gap) and it.what == "output"), None)
    kept = list[Output]()
    for it in outputs:
        if id(it) not in going:
            kept.append(it)
        elif gap is None:
            gap = Gap("output", 1)
            kept.append(gap)
        else:
            gap.count += 1
    return kept
