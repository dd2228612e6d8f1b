"""Settings that pictures of ours are drawn under, whatever their user has set for other plots.

They are the process's, so they are for one thread at a time.
"""
# matplotlib 3.10 leaves what settings hold untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from matplotlib import rc_context, rcParamsDefault

_OURS: Mapping[str, Any] = {
    # It comes with matplotlib, so that pictures are the same everywhere.
    "font.family": ["DejaVu Sans"],
    # A dollar sign in a name is a dollar sign.
    "text.parse_math": False,
    "svg.hashsalt": "branchpoint",
}


@contextmanager
def settings_of_ours(style: Mapping[str, Any] | None = None) -> Generator[None]:
    """Have our settings and no others, and `style`, for as long as it is entered.

    What is drawn keeps some of those it was made under, and asks for others when it is written, so
    both belong in here. A name in a script the font lacks is shown as boxes, without a warning.
    """
    plain = {name: rcParamsDefault[name] for name in rcParamsDefault if name != "backend"}
    settings = rc_context(cast("Any", {**plain, **_OURS, **(style or {})}))
    with warnings.catch_warnings(), settings:
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
