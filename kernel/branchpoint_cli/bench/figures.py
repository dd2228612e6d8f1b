"""Figures and how they are summed up. Pure."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measure over several runs, in `unit`, against others of `floor` where there is one."""

    name: str
    unit: str
    values: tuple[float, ...]
    floor_name: str = ""
    floor: tuple[float, ...] = ()
    bound: str = ""

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        """Median by median: this against its floor."""
        return self.median / statistics.median(self.floor) if self.floor else None


def as_json(figures: Sequence[Figure]) -> str:
    """All figures with every run, for programs."""
    return json.dumps([asdict(figure) | {"median": figure.median} for figure in figures], indent=1)


def as_markdown(figures: Sequence[Figure]) -> str:
    """A table of medians, with the range of the runs and the ratio to the floor.

    >>> print(as_markdown([Figure(name="fork", unit="ms", values=(90.0,), floor=(45.0,),
    ...     floor_name="bare", bound="at most 3")]))
    | measure | median | range | against | its median | ratio | wanted |
    |---|---|---|---|---|---|---|
    | fork | 90.0 ms | 90.0 to 90.0 | bare | 45.0 ms | 2.00 | at most 3 |
    <BLANKLINE>
    """
    lines = [
        "| measure | median | range | against | its median | ratio | wanted |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        floor = f"{statistics.median(figure.floor):.1f} {figure.unit}" if figure.floor else ""
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        spread = f"{min(figure.values):.1f} to {max(figure.values):.1f}"
        lines.append(
            f"| {figure.name} | {figure.median:.1f} {figure.unit} | {spread} "
            f"| {figure.floor_name} | {floor} | {ratio} | {figure.bound} |"
        )
    return "\n".join(lines) + "\n"
