"""What a manifest says of idle branches: after how long they are paused by themselves."""

import yaml

from branchpoint_vmruntime.budget import IdlePause
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.manifest.nodes import Nodes
from branchpoint_vmruntime.outside.amounts import parse_duration

_NEVER = "off"


def read_idle_pause(nodes: Nodes, node: yaml.Node) -> IdlePause:
    """`20m`, `off`, or `{others: 20m, current: 2h}`."""
    default = IdlePause()
    if not isinstance(node, yaml.MappingNode):
        return IdlePause(others_s=_limit(nodes, node), current_s=default.current_s)
    fields = nodes.fields(node, ("others", "current"))
    return IdlePause(
        others_s=_limit(nodes, fields["others"]) if "others" in fields else default.others_s,
        current_s=_limit(nodes, fields["current"]) if "current" in fields else default.current_s,
    )


def _limit(nodes: Nodes, node: yaml.Node) -> float | None:
    limit_s = nodes.parsed(node, _parse_limit)
    if limit_s == 0:
        nodes.refuse(node, "a branch is idle for more than no time before it is paused")
    return limit_s


def _parse_limit(text: str) -> float | None:
    if text.lower() == _NEVER:
        return None
    try:
        return parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{error}, nor {_NEVER}") from error
