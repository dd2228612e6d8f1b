"""What tests are run in: what would have them test something else, or reach nothing at all."""

import sys
from collections.abc import MutableMapping
from pathlib import Path

from tests.architecture.house import ROOT

_AT_LOOPBACK = ("127.0.0.1", "localhost")


def settle(environment: MutableMapping[str, str]) -> None:
    """Have this host's own servers asked without a proxy, and this Python's Jupyter files found.

    A proxy stays what it is for everything else: packages may be to be had by it alone.
    """
    # Where both are set, the lower case is what counts.
    passed_over = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if passed_over.strip() != "*":
        names = [name for each in passed_over.split(",") if (name := each.strip())]
        passed_over = ",".join([*names, *(it for it in _AT_LOOPBACK if it not in names)])
    environment["no_proxy"] = environment["NO_PROXY"] = passed_over
    # What a user has put elsewhere would otherwise come first: a kernelspec of another checkout.
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    environment.pop("JUPYTER_PATH", None)


def foreign_module(file: str | None) -> str | None:
    """What to say of a module of vmruntime/ that is not this checkout's; None if it is."""
    here = ROOT / "vmruntime"
    if file is not None and _same(Path(file).parents[1], here):
        return None
    return f"what would be tested is {file}, not {here}: `make venv`, then .venv/bin/pytest"


def foreign_kernel(argv: list[str]) -> str | None:
    """What to say of a kernelspec that starts another Python than this; None if it does not."""
    python = Path(argv[0])
    # A bare `python` is this one to Jupyter.
    if not python.is_absolute() or _same(python.parent, Path(sys.executable).parent):
        return None
    return f"the kernelspec starts {python}, not {sys.executable}; run `branchpoint setup`"


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
