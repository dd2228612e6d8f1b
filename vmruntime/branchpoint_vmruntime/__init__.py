"""MicroVMs that can be checkpointed, forked and rolled back, from a plain asyncio script.

No daemon.
"""

from branchpoint_vmruntime.branch_seam import Branch as Branch
from branchpoint_vmruntime.budget import Budgets as Budgets
from branchpoint_vmruntime.budget import IdlePause as IdlePause
from branchpoint_vmruntime.errors import BranchpointError as BranchpointError
from branchpoint_vmruntime.lineage import BranchState as BranchState
from branchpoint_vmruntime.lineage import Checkpoint as Checkpoint
from branchpoint_vmruntime.lineage import CheckpointKind as CheckpointKind
from branchpoint_vmruntime.lineage import Moment as Moment
from branchpoint_vmruntime.manifest import Manifest as Manifest
from branchpoint_vmruntime.reports import ForkReport as ForkReport
from branchpoint_vmruntime.reports import PauseReport as PauseReport
from branchpoint_vmruntime.reports import ResumeReport as ResumeReport
from branchpoint_vmruntime.reports import RollbackReport as RollbackReport
from branchpoint_vmruntime.runtime import Runtime as Runtime
from branchpoint_vmruntime.session import Session as Session
