"""The sheet that charts of costs are drawn on: where things are on it, and how they look.

Lengths are in inches.
"""
# matplotlib 3.10 leaves **kwargs untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import warnings
from typing import Any, cast

from matplotlib import rc_context, rcParamsDefault
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH_IN = 9.6
ROW_IN = 0.27
TITLE_IN, HEAD_IN, BETWEEN_IN, LATENCY_IN, FOOT_IN = 0.2, 0.62, 1.2, 2.3, 0.55
SIDE_IN = 0.15

INK = "#1f2328"
QUIET = "#656d76"
_FAINT = "#d0d7de"

# Whatever its user has set for other plots on this host: these are the same everywhere.
_STYLE = {
    "font.family": ["DejaVu Sans"],
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
    "text.parse_math": False,
}


class as_ours:  # noqa: N801 (read as what it does)
    """Our settings and no others; a name in a script the font lacks is shown as boxes."""

    def __init__(self) -> None:
        plain = {name: rcParamsDefault[name] for name in rcParamsDefault if name != "backend"}
        self._style = rc_context(cast("Any", {**plain, **_STYLE}))
        self._quiet = warnings.catch_warnings()

    def __enter__(self) -> None:
        self._quiet.__enter__()
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        self._style.__enter__()

    def __exit__(self, *_: object) -> None:
        self._style.__exit__(None, None, None)
        self._quiet.__exit__(None, None, None)


def axes_at(figure: Figure, place_in: tuple[float, float, float, float]) -> Axes:
    """Axes at a place: left, bottom, width, height."""
    wide, high = figure.get_size_inches()
    left, bottom, width, height = place_in
    return figure.add_axes((left / wide, bottom / high, width / wide, height / high))


def entitle(figure: Figure, y_in: float, words: str) -> None:
    """Write the title of a part of the sheet at a height."""
    x, y = SIDE_IN / WIDTH_IN, y_in / figure.get_size_inches()[1]
    figure.text(x, y, words, fontsize=10, fontweight="bold", color=INK, va="center")
