"""What Python would otherwise work out at first use: byte code and matplotlib's font list."""

import shutil
from pathlib import Path

from branchpoint_vmruntime.image.native import NativeRunner
from branchpoint_vmruntime.image.recipe import GUEST_PYTHON
from branchpoint_vmruntime.image.wheels import SITE_PACKAGES

PYTHON = f"usr/bin/python{GUEST_PYTHON}"
MODULE_FOLDERS = (
    Path("usr/lib") / f"python{GUEST_PYTHON}",
    Path("usr/lib/python3/dist-packages"),
    SITE_PACKAGES,
)
# The packages' own tests: 60 MB that no notebook imports.
TESTS = ("matplotlib/tests", "mpl_toolkits/*/tests", "numpy/**/tests", "pandas/tests")
# A link to the guest's /etc, which would be followed to the host's: neither run nor compiled here.
_OUTSIDE = r"/sitecustomize\.py$"
FONT_CACHE = "root/.cache/matplotlib"

_FONT_LIST = """
import json, os, sys
import matplotlib
import matplotlib.font_manager as fonts

inside = matplotlib.get_data_path() + os.sep
manager = fonts.FontManager()
# Fonts of the host that builds must not be in the guest's list.
for name in ("ttflist", "afmlist"):
    found = [font for font in getattr(manager, name) if font.fname.startswith(inside)]
    setattr(manager, name, sorted(found, key=lambda font: font.fname))
name = f"fontlist-v{fonts.FontManager.__version__}.json"
fonts.json_dump(manager, os.path.join(sys.argv[1], name))
"""


def prune_python(root: Path) -> None:
    """Leave out what is only there to test the packages."""
    for pattern in TESTS:
        for folder in sorted((root / SITE_PACKAGES).glob(pattern)):
            shutil.rmtree(folder, ignore_errors=True)


def write_font_list(root: Path) -> None:
    """Find the fonts of the guest's matplotlib, which takes a second of the first plot."""
    if not (root / SITE_PACKAGES / "matplotlib").is_dir():
        return
    cache = root / FONT_CACHE
    cache.mkdir(parents=True)
    NativeRunner(root).run(
        PYTHON, "-B", "-S", "-c", _FONT_LIST, cache,
        purpose="list the guest's fonts",
        environment={
            "PYTHONPATH": str(root / SITE_PACKAGES),
            # Anything matplotlib keeps for itself while it looks goes where nothing is kept.
            "MPLCONFIGDIR": str(root.parent / "matplotlib"),
        },
    )  # fmt: skip


def compile_modules(root: Path) -> None:
    """Compile every module by the guest's interpreter, never to be checked against its source."""
    folders = [root / folder for folder in MODULE_FOLDERS if (root / folder).is_dir()]
    for folder in folders:
        # What an interpreter left while it worked on the tree holds times and paths of this host.
        for cache in sorted(folder.rglob("__pycache__")):
            shutil.rmtree(cache)
    NativeRunner(root).run(
        PYTHON, "-B", "-S", "-m", "compileall", "-qq", "-f", "-j", "0", "-s", root, "-p", "/",
        "--invalidation-mode", "unchecked-hash", "-x", _OUTSIDE, *folders,
        purpose="compile the guest's Python modules",
    )  # fmt: skip
