"""Which cells have begun and come to no end: kept, so that what follows a killed process can tell.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     keep_unfinished(Path(folder), {"c2", "c1"})
...     unfinished(Path(folder))
('c1', 'c2')
"""

import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

_NAME = "unfinished"
# A notebook that is run whole has as many at once as it has cells.
MOST_UNFINISHED = 1000


def unfinished(folder: Path) -> tuple[str, ...]:
    """The ids of a session's cells that were begun, and of whose end nothing is known.

    `folder` is the session's own. What cannot be read is nothing.
    """
    try:
        kept: Any = json.loads((folder / _NAME).read_text())
    except (OSError, ValueError):
        return ()
    ids = cast("list[Any]", kept) if isinstance(kept, list) else []
    return tuple(each for each in ids if isinstance(each, str))


def keep_unfinished(folder: Path, ids: Collection[str]) -> None:
    """Keep them from now on; a folder that cannot be written keeps none."""
    path = folder / _NAME
    with suppress(OSError):
        if not ids:
            path.unlink(missing_ok=True)
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        half = path.with_name(f"{_NAME}.part")
        half.write_text(json.dumps(sorted(ids)[:MOST_UNFINISHED]))
        half.replace(path)
