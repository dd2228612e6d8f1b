"""What the runtime offers to scripts: these names, and no others."""

from types import ModuleType

import pytest

import branchpoint_vmruntime

PUBLIC = {
    "Branch",
    "BranchState",
    "BranchpointError",
    "Budgets",
    "Checkpoint",
    "CheckpointKind",
    "ForkReport",
    "IdlePause",
    "Manifest",
    "Moment",
    "PauseReport",
    "ResumeReport",
    "RollbackReport",
    "Runtime",
    "Session",
}


def test_the_public_names_are_these() -> None:
    offered = {
        name
        for name, value in vars(branchpoint_vmruntime).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert offered == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_each_public_name_is_documented_where_it_is_defined(name: str) -> None:
    value = getattr(branchpoint_vmruntime, name)
    assert value.__doc__
    assert value.__module__.startswith("branchpoint_vmruntime.")
