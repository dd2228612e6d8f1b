"""The kernelspec as it is installed."""

import json
import sys
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

from branchpoint_kernel.kernelspec import NAME, install


def test_jupyter_finds_the_kernel_with_its_interpreter_and_logos(tmp_path: Path) -> None:
    folder = install(prefix=tmp_path, python="/usr/bin/python9")
    manager = KernelSpecManager(kernel_dirs=[str(folder.parent)], ensure_native_kernel=False)
    spec = manager.get_kernel_spec(NAME)
    assert spec.argv[:4] == ["/usr/bin/python9", "-P", "-m", "branchpoint_kernel"]
    assert spec.argv[-1] == "{connection_file}"
    assert spec.interrupt_mode == "message"
    assert spec.display_name == "Python 3 (microVM)"
    for logo in ("logo-32x32.png", "logo-64x64.png", "logo-svg.svg"):
        assert (folder / logo).stat().st_size > 100


def test_installing_twice_changes_nothing_but_the_interpreter(tmp_path: Path) -> None:
    first = install(prefix=tmp_path, python="one")
    second = install(prefix=tmp_path)
    assert first == second
    assert json.loads((second / "kernel.json").read_bytes())["argv"][0] == sys.executable
