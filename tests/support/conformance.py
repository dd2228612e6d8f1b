"""`python -m tests.support.conformance KERNEL [CELL...]`: jupyter_kernel_test's verdicts, as JSON.

The cells are run before the tests, on each kernel that the suite starts. What failed, and why, is
told on standard error.
"""

import json
import sys
import unittest
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty
from typing import Any, ClassVar

import pytest
from jupyter_kernel_test import IopubWelcomeTests, KernelTests  # pyright: ignore[reportMissingTypeStubs]
from jupyter_kernel_test.msgspec_v5 import validate_message  # pyright: ignore[reportMissingTypeStubs]
from tests.support.kernel_ports import kernels_get_free_ports


class Python:
    """What jupyter_kernel_test wants to know of a Python kernel."""

    kernel_name = ""
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = ({"text": "zi", "matches": {"zip"}},)
    complete_code_samples = ("1", 'print("hello")')
    incomplete_code_samples = ("print('''hello", "def f(x):")
    invalid_code_samples = ("import = 7q",)
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_execute_result = ({"code": "1+2+3", "result": "6"},)
    code_display_data = (
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))",
            "mime": "text/html",
        },
    )
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    support_iopub_welcome = True


# The suite allows a second to become busy and a tenth between two messages, which tells nothing
# about a kernel on a host that is busy or emulates it. Every kernel gets this, stock too.
PATIENCE = 100


class Conformance(Python, KernelTests):
    """The tests of the protocol."""

    cells: ClassVar[Sequence[str]] = ()
    get_at_once: ClassVar[Callable[..., Any]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        # A kernel may say by itself, once, that it has become idle. The suite takes whatever comes
        # before a cell ends for that cell's, so that has to be over; after an empty cell it is.
        for cell in ("", *cls.cells):
            reply = cls.kc.execute_interactive(
                cell, store_history=False, timeout=120, output_hook=_keep_quiet
            )
            assert reply["content"]["status"] == "ok", reply["content"]
        get = cls.get_at_once = staticmethod(cls.kc.iopub_channel.get_msg)

        def get_patiently(timeout: float) -> Any:
            return get(timeout=PATIENCE * timeout)

        setattr(cls.kc.iopub_channel, "get_msg", get_patiently)  # noqa: B010

    def flush_channels(self) -> None:
        """Take what has come already: for what is left of an earlier test none need be patient."""
        for get in (self.kc.shell_channel.get_msg, self.get_at_once):
            with suppress(Empty):
                while True:
                    validate_message(get(timeout=0.1))


class Welcome(Python, IopubWelcomeTests):
    """The tests of the welcome on iopub."""


def _keep_quiet(message: Any) -> None:
    """What is printed here is the verdicts alone."""


def verdicts(kernel_name: str, cells: Sequence[str] = ()) -> dict[str, str]:
    """Passed, failed or skipped, by test; a failed subtest fails its test."""
    # The suite starts its kernels before there is an instance to tell.
    Python.kernel_name = kernel_name
    Conformance.cells = cells
    loader = unittest.defaultTestLoader
    found: dict[str, str] = {}
    for case in (Conformance, Welcome):
        names = [f"{case.__name__}.{name}" for name in loader.getTestCaseNames(case)]
        result: Any = unittest.TextTestRunner(sys.stderr).run(loader.loadTestsFromTestCase(case))
        found |= dict.fromkeys(names, "passed")
        found |= {_name(test): "skipped" for test, _ in result.skipped}
        failed = {_name(test) for test, _ in [*result.failures, *result.errors]}
        # Where the kernel does not come up, no test is run, and what failed has another name.
        found |= dict.fromkeys(failed if failed <= set(names) else names, "failed")
    return found


def _name(test: unittest.TestCase) -> str:
    # A part that fails fails the whole test.
    return getattr(test, "test_case", test).id().removeprefix(f"{__name__}.")


if __name__ == "__main__":
    kernels_get_free_ports(pytest.MonkeyPatch())
    print(json.dumps(verdicts(sys.argv[1], sys.argv[2:])))  # noqa: T201
