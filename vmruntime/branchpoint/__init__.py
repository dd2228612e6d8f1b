"""The machine you run in, from inside: checkpoint it, fork it, roll it back, try every option.

    import branchpoint

    if branchpoint.checkpoint("before") == "saved":
        risky()
    results = branchpoint.explore(fit, [0.1, 0.3, 1.0])

Works in any process of a branchpoint machine. Elsewhere everything raises BranchpointError.
"""

from branchpoint.errors import BranchpointError, CellEnded
from branchpoint.exploring import Result, Results, explore
from branchpoint.extension import load_ipython_extension
from branchpoint.once import UnknownOutcomeError, accept, once
from branchpoint.operations import Moment, checkpoint, fork, rollback
from branchpoint.secrets import secret
from branchpoint.waking import Identity, identity, on_wake

__all__ = [
    "BranchpointError",
    "CellEnded",
    "Identity",
    "Moment",
    "Result",
    "Results",
    "UnknownOutcomeError",
    "accept",
    "checkpoint",
    "explore",
    "fork",
    "identity",
    "load_ipython_extension",
    "on_wake",
    "once",
    "rollback",
    "secret",
]
