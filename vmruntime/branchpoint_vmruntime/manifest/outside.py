"""What a manifest says of the outside world: what may leave, secrets by reference, files."""

import re
from pathlib import Path, PurePosixPath

import yaml

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.manifest.nodes import NOTHING, Nodes
from branchpoint_vmruntime.outside.binding import Binding
from branchpoint_vmruntime.outside.facts import WEB_PORTS, Rule, SecretSource, SecretSpec
from branchpoint_vmruntime.outside.injection import Template
from branchpoint_vmruntime.outside.rule_text import (
    parse_allowed,
    parse_host,
    parse_method,
    parse_port,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_BY_REFERENCE = (
    "a secret is given by reference, its value does not belong here: "
    "`from: env`, `from: {env: NAME}` or `from: {file: PATH}`"
)
_SECRET_FIELDS = ("host", "hosts", "from", "header")
_DEFAULT_HEADER = "Authorization: Bearer {}"
_FILE = "a file or pattern is relative to the manifest's folder and stays in it, like data/*.csv"


def read_egress(nodes: Nodes, node: yaml.Node) -> tuple[str | Rule, ...]:
    """`{allow: [pip, api.example.org, {host: internal.example, private: true}]}`."""
    fields = nodes.fields(node, ("allow",))
    if "allow" not in fields:
        return ()
    return tuple(_allowed(nodes, part) for part in nodes.one_or_more(fields["allow"]))


def read_secrets(nodes: Nodes, node: yaml.Node, folder: Path) -> tuple[SecretSpec, ...]:
    """`{NAME: {host: api.example.org, from: env}}`; files are looked for in `folder`."""
    return tuple(_secret(nodes, key, name, of, folder) for key, name, of in nodes.named(node))


def read_files(nodes: Nodes, node: yaml.Node) -> tuple[str, ...]:
    """`[., "data/*.csv"]`, or one alone."""
    return tuple(_file(nodes, part) for part in nodes.one_or_more(node))


def _allowed(nodes: Nodes, node: yaml.Node) -> str | Rule:
    if not isinstance(node, yaml.MappingNode):
        return nodes.parsed(node, parse_allowed)
    fields = nodes.fields(node, ("host", "ports", "methods", "private", "inspect"))
    if "host" not in fields:
        nodes.refuse(node, "a rule needs a host")
    ports = nodes.one_or_more(fields["ports"]) if "ports" in fields else []
    methods = nodes.one_or_more(fields["methods"]) if "methods" in fields else []
    for name, given in (("ports", ports), ("methods", methods)):
        if name in fields and not given:
            nodes.refuse(fields[name], f"no {name} would mean that nothing may leave")
    return Rule(
        host=nodes.parsed(fields["host"], parse_host),
        ports=tuple(nodes.parsed(port, parse_port) for port in ports) or WEB_PORTS,
        methods=tuple(nodes.parsed(method, parse_method) for method in methods),
        private="private" in fields and nodes.flag(fields["private"]),
        inspect="inspect" in fields and nodes.flag(fields["inspect"]),
    )


def _secret(nodes: Nodes, key: yaml.Node, name: str, node: yaml.Node, folder: Path) -> SecretSpec:
    if not _NAME.fullmatch(name):
        nodes.refuse(key, "a secret is named like a variable, with letters, digits and _: API_KEY")
    if not isinstance(node, yaml.MappingNode):
        nodes.refuse(node, _BY_REFERENCE)
    for part, field, _ in nodes.named(node):
        if field not in _SECRET_FIELDS:
            # What stands there may be a secret: it is not repeated.
            nodes.refuse(part, f"{_BY_REFERENCE}; fields are: {', '.join(_SECRET_FIELDS)}")
    fields = nodes.fields(node, _SECRET_FIELDS)
    if "from" not in fields:
        nodes.refuse(node, f"{name} does not say where it comes from; {_BY_REFERENCE}")
    if ("host" in fields) == ("hosts" in fields):
        nodes.refuse(node, f"{name} needs one of host and hosts: what it may be sent to")
    hosts = nodes.one_or_more(fields["hosts"] if "hosts" in fields else fields["host"])
    if not hosts:
        nodes.refuse(fields["hosts"], f"{name} is bound to no host")
    return SecretSpec(
        name=name,
        hosts=tuple(str(nodes.parsed(host, Binding.parse)) for host in hosts),
        header=nodes.parsed(fields["header"], _header) if "header" in fields else _DEFAULT_HEADER,
        source=_source(nodes, fields["from"], name, folder),
    )


def _header(text: str) -> str:
    if text == "none":
        return ""
    try:
        Template.parse(text)
    except UsageError as error:
        # Where the place for it should be may stand the secret: it is not repeated.
        raise UsageError(
            "header is none, or a header with a place for the secret", hint=error.hint
        ) from error
    return text


def _source(nodes: Nodes, node: yaml.Node, name: str, folder: Path) -> SecretSource:
    if isinstance(node, yaml.ScalarNode) and node.value == "env":
        return SecretSource(variable=name)
    if not isinstance(node, yaml.MappingNode):
        nodes.refuse(node, _BY_REFERENCE)
    named = nodes.named(node)
    if len(named) != 1 or named[0][1] not in ("env", "file"):
        nodes.refuse(node, _BY_REFERENCE)
    [(_, kind, value)] = named
    text = nodes.text(value)
    if kind == "env":
        if not _NAME.fullmatch(text):
            nodes.refuse(value, "env names a variable of the host, such as API_KEY")
        return SecretSource(variable=text)
    if not text or "\0" in text:
        nodes.refuse(value, "file names a file of the host")
    try:
        return SecretSource(file=folder / Path(text).expanduser())
    except RuntimeError as error:
        nodes.refuse(value, f"{text!r} names no one's home folder: {error}")


def _file(nodes: Nodes, node: yaml.Node) -> str:
    text = "" if node.tag == NOTHING else nodes.text(node)
    path = PurePosixPath(text)
    if not text or "\0" in text or path.is_absolute() or ".." in path.parts or text[0] == "~":
        nodes.refuse(node, f"{text!r}: {_FILE}")
    return str(path)
