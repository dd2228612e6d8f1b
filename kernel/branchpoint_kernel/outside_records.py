"""What leaves, what is secret and what is forwarded, in the records for programs. Pure."""

from collections.abc import Mapping
from typing import Any

from branchpoint_vmruntime.outside.facts import Rule, SecretSpec
from branchpoint_vmruntime.outside.forwarding import Forward


def rule_record(rule: Rule) -> Mapping[str, Any]:
    """A rule in a record."""
    return {
        "host": rule.host,
        "ports": list(rule.ports),
        "methods": list(rule.methods),
        "private": rule.private,
        "inspect": rule.inspect,
        "group": rule.group or None,
    }


def secret_record(secret: SecretSpec) -> Mapping[str, Any]:
    """A secret in a record: never its value."""
    file = secret.source.file
    return {
        "name": secret.name,
        "hosts": list(secret.hosts),
        "header": secret.header or None,
        "variable": secret.source.variable,
        "file": None if file is None else str(file),
    }


def forward_record(forward: Forward) -> Mapping[str, Any]:
    """A forward in a record; `branch` null follows the current one."""
    return {
        "port": forward.port,
        "host_port": forward.host_port,
        "url": f"http://127.0.0.1:{forward.host_port}",
        "branch": forward.branch,
        "connections": forward.connections,
        "answered": forward.answered,
    }
