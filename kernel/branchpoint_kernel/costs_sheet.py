"""The sheet that charts of costs are drawn on: where things are on it, and how they look.

Lengths are in inches.
"""
# matplotlib 3.10 leaves **kwargs untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from contextlib import AbstractContextManager

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from branchpoint_vmruntime.drawing_settings import settings_of_ours

WIDTH_IN = 9.6
ROW_IN = 0.27
TITLE_IN, HEAD_IN, BETWEEN_IN, LATENCY_IN, FOOT_IN = 0.2, 0.62, 1.2, 2.3, 0.55
SIDE_IN = 0.15

INK = "#1f2328"
QUIET = "#656d76"
_FAINT = "#d0d7de"

_STYLE = {
    "font.size": 8.5,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8.5,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#eaeef2",
    "xtick.color": QUIET,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
}


def as_ours() -> AbstractContextManager[None]:
    """The settings that a sheet is drawn and written under."""
    return settings_of_ours(_STYLE)


def axes_at(figure: Figure, place_in: tuple[float, float, float, float]) -> Axes:
    """Axes at a place: left, bottom, width, height."""
    wide, high = figure.get_size_inches()
    left, bottom, width, height = place_in
    return figure.add_axes((left / wide, bottom / high, width / wide, height / high))


def entitle(figure: Figure, y_in: float, words: str) -> None:
    """Write the title of a part of the sheet at a height."""
    x, y = SIDE_IN / WIDTH_IN, y_in / figure.get_size_inches()[1]
    figure.text(x, y, words, fontsize=10, fontweight="bold", color=INK, va="center")
