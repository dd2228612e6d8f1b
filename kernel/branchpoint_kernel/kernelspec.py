"""Makes the kernel known to Jupyter: kernel.json and logos, with this interpreter's own path."""

import json
import sys
from pathlib import Path
from typing import Any

NAME = "branchpoint"
_INSTALLED = Path(sys.prefix) / "share/jupyter/kernels" / NAME
_CHECKOUT = Path(__file__).parents[1] / "kernelspec"
_FILES = ("logo-32x32.png", "logo-64x64.png", "logo-svg.svg")


def spec(python: str) -> dict[str, Any]:
    """The content of kernel.json for an interpreter."""
    source = _source() / "kernel.json"
    content: dict[str, Any] = json.loads(source.read_bytes())
    # -P: a `json.py` beside the notebook must not run in the host's process.
    return {**content, "argv": [python, *content["argv"][1:]]}


def install(*, prefix: Path = Path(sys.prefix), python: str = sys.executable) -> Path:
    """Write the kernelspec into an environment, by default this one."""
    folder = prefix / "share/jupyter/kernels" / NAME
    # Read first: the source may be the very folder that is written.
    content = json.dumps(spec(python), indent=2) + "\n"
    logos = {name: (_source() / name).read_bytes() for name in _FILES}
    if folder.is_symlink():
        # A link into a checkout: writing through it would change the checkout.
        folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in logos.items():
        (folder / name).write_bytes(data)
    (folder / "kernel.json").write_text(content)
    return folder


def _source() -> Path:
    return _CHECKOUT if (_CHECKOUT / "kernel.json").exists() else _INSTALLED
