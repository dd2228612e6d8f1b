"""A server waits for kernels of ours to end, and for no others."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.front_end import in_a_loop

from branchpoint_nbext.patience import WAIT_S, Patience, is_ours

OURS = ["python", "-P", "-m", "branchpoint_kernel", "-f", "{connection_file}"]


@dataclass
class Spec:
    argv: list[str]


@dataclass
class Manager:
    """As much of a kernel's manager as is looked at."""

    kernel_spec: Spec | None
    shutdown_wait_time: float = 5.0


@dataclass
class Kernels:
    """As much of a server's kernels."""

    there: dict[str, Manager] = field(default_factory=dict[str, Manager])

    def __contains__(self, kernel: object) -> bool:
        return kernel in self.there

    def get_kernel(self, kernel: str) -> Manager:
        """That one."""
        return self.there[kernel]


async def waits(manager: Manager, **event: Any) -> float:
    """How long it is waited for once that was done with it."""
    data = {"kernel_id": "k", "action": "start", "status": "success", **event}
    await Patience(Kernels({"k": manager})).heard(logger=None, schema_id="", data=data)
    return manager.shutdown_wait_time


@in_a_loop
async def test_a_kernel_of_ours_is_given_the_time_to_save() -> None:
    assert await waits(Manager(Spec(OURS))) == WAIT_S


@in_a_loop
async def test_it_is_never_less_than_was_configured() -> None:
    assert await waits(Manager(Spec(OURS), 300.0)) == 300.0


@in_a_loop
async def test_any_other_kernel_is_waited_for_as_ever() -> None:
    assert await waits(Manager(Spec(["python", "-m", "ipykernel_launcher"]))) == 5.0
    assert await waits(Manager(None)) == 5.0


@in_a_loop
async def test_one_that_has_gone_or_never_came_up_is_nothing() -> None:
    assert await waits(Manager(Spec(OURS)), kernel_id="other") == 5.0
    assert await waits(Manager(Spec(OURS)), status="error", kernel_id=None) == 5.0


def test_our_own_kernelspec_is_known() -> None:
    here = Path(__file__).parents[3] / "kernel" / "kernelspec" / "kernel.json"
    assert is_ours(Manager(Spec(json.loads(here.read_text())["argv"])))
