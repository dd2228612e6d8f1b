"""How what may leave, what has left and what it cost look: lines and tables. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from html import escape

from branchpoint_kernel.effects import clock, entry_words, outcome_words, printable
from branchpoint_kernel.rendering import Line, duration, note, size
from branchpoint_kernel.tables import table
from branchpoint_vmruntime.ledger import Decision, Entry, EntryKind, OutcomeState, Usage
from branchpoint_vmruntime.outside.amounts import money_text
from branchpoint_vmruntime.outside.facts import WEB_PORTS, Rule, SecretSource, SecretSpec
from branchpoint_vmruntime.outside.forwarding import Forward

NEWEST = 50
# Kinds of entries whose key is one that is done at most once.
KEYED = (EntryKind.ONCE, EntryKind.REQUEST)
_LONGEST_REASON = 80
_NUMBERS = ("sent", "received", "tokens", "money")


class Linked(Line):
    """A line whose facts begin with a URL that can be followed."""

    def html(self, width: int) -> str:
        """As HTML."""
        address = escape(self.facts[0])
        rest = "".join(f" · {escape(fact)}" for fact in self.facts[1:] if fact)
        name = escape(f"{self.name:<{width}}")
        link = f'<a href="{address}" target="_blank" rel="noopener">{address}</a>'
        return f"{escape(self.mark)} <b>{name}</b>   {link}{rest}"


def rule_words(rule: Rule) -> str:
    """What a rule lets through.

    >>> rule_words(Rule(host="a.example.org", ports=(8443,), methods=("GET",)))
    'a.example.org:8443, GET alone'
    """
    ports = "" if rule.ports == WEB_PORTS else f":{','.join(map(str, rule.ports))}"
    parts = [
        f"{rule.host}{ports}",
        f"{' '.join(rule.methods)} alone" if rule.methods else "",
        "private addresses too" if rule.private and not rule.group else "",
        "inspected" if rule.inspect else "",
    ]
    return ", ".join(part for part in parts if part)


def rules_lines(branch: str, rules: Sequence[Rule]) -> list[Line]:
    """What a branch may reach, a group's hosts on one line."""
    if not rules:
        return [
            note("○", f"nothing may leave {branch}", "%egress allow HOST opens one, or pip, or apt")
        ]
    grouped: dict[str, list[str]] = {}
    for rule in rules:
        grouped.setdefault(rule.group or rule_words(rule), []).append(rule_words(rule))
    lines = [note("●", f"{branch} may reach")]
    for name, hosts in grouped.items():
        listed = ", ".join(dict.fromkeys(hosts))
        lines.append(Line(" ", name, () if [name] == hosts else (listed,)))
    return lines


def refusals_lines(refused: Sequence[Entry]) -> list[Line]:
    """What was refused last."""
    if not refused:
        return []
    lines = [note("✕", "refused last")]
    lines += [
        Line(" ", entry_words(entry), (clock(entry.at), _shortened(entry.draft.reason)))
        for entry in refused
    ]
    return lines


def secrets_lines(secrets: Sequence[SecretSpec]) -> list[Line]:
    """The secrets there are; of their values nothing."""
    if not secrets:
        return [note("○", "there are no secrets", "%secrets add NAME --host HOST binds one")]
    return [
        Line("●", it.name, (", ".join(it.hosts), header_words(it), source_words(it.source)))
        for it in secrets
    ]


def header_words(secret: SecretSpec) -> str:
    """Where in a request it goes."""
    if not secret.header:
        return "where its placeholder stands"
    return f"in {secret.header.partition(':')[0].strip()}"


def source_words(source: SecretSource) -> str:
    """Where it is read from."""
    if source.variable is not None:
        return f"from ${source.variable}"
    return "typed in" if source.file is None else f"from {source.file}"


def added_lines(secret: SecretSpec, closed: Sequence[str]) -> list[Line]:
    """What `%secrets add` shows; `closed` are those of its hosts that may not be reached."""
    hosts = ", ".join(secret.hosts)
    name = secret.name
    return [
        note("●", f"{name} goes out with requests to {hosts}", header_words(secret)),
        note(
            " ", f'os.environ["{name}"] in the machines is a placeholder, worth nothing elsewhere'
        ),
        *(note("○", f"{host} may not be reached yet", f"%egress allow {host}") for host in closed),
    ]


def ledger_lines(entries: Sequence[Entry], *, whole: bool, currency: str) -> list[Line]:
    """What `%ledger` shows, the newest last."""
    if not entries:
        return [note("○", "nothing has left a machine, and nothing was refused")]
    shown = entries if whole else entries[-NEWEST:]
    head = ("time", "branch", "what", "outcome", "sent", "received", "tokens", "money", "")
    days = {entry.at.astimezone().date() for entry in shown}
    written = "%H:%M:%S" if len(days) == 1 else "%m-%d %H:%M:%S"
    rows = [(f"{it.at.astimezone():{written}}", *_row(it, currency)) for it in shown]
    # What is on the right is what matters most of a refusal, and is cut off first on a page.
    kept = [at for at in range(len(head)) if any(row[at] for row in rows)]
    cells = [[row[at] for at in kept] for row in (head, *rows)]
    right = [place for place, at in enumerate(kept) if head[at] in _NUMBERS]
    lines = table(cells[0], cells[1:], right)
    if len(shown) < len(entries):
        lines.append(note("…", f"{len(entries) - len(shown)} older ones", "%ledger --all"))
    return lines


def _row(entry: Entry, currency: str) -> tuple[str, ...]:
    outcome, draft = entry.outcome, entry.draft
    usage = outcome and outcome.usage
    return (
        printable(draft.branch),
        entry_words(entry),
        draft.decision.value if draft.decision is not Decision.ALLOWED else outcome_words(outcome),
        _bytes(outcome.sent_bytes if outcome else 0),
        _bytes(outcome.received_bytes if outcome else 0),
        _tokens(usage),
        "" if usage is None or usage.micros is None else money_text(usage.micros, currency),
        _notes(entry),
    )


def _notes(entry: Entry) -> str:
    draft, outcome = entry.draft, entry.outcome
    if draft.decision is Decision.REFUSED:
        return _shortened(draft.reason)
    key = shlex.quote(printable(draft.key)) if draft.kind in KEYED and draft.key else ""
    if key and outcome and outcome.state is OutcomeState.UNKNOWN:
        return f"%ledger --accept {key}, or --retry {key}"
    noted = _shortened(outcome.note) if outcome else ""
    left = "not used up" if key and outcome and outcome.state is OutcomeState.REFUSED else ""
    return ", ".join(part for part in (f"key {key}" if key else "", left, noted) if part)


def _tokens(usage: Usage | None) -> str:
    return "" if usage is None else f"{usage.tokens_in} + {usage.tokens_out}"


def _bytes(count: int) -> str:
    return size(count) if count else ""


def _shortened(reason: str) -> str:
    text = printable(reason)
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


def forward_line(forward: Forward, current: str) -> Line:
    """One forward, with a link to follow."""
    leads_to = f"to {current}, which the notebook continues as"
    facts = (
        f"http://127.0.0.1:{forward.host_port}",
        leads_to if forward.branch is None else f"to {forward.branch}",
        _connections(forward.connections),
        "" if forward.answered else "nothing listens there yet",
    )
    return Linked("⇄", str(forward.port), facts)


def forwards_lines(forwards: Sequence[Forward], current: str) -> list[Line]:
    """What `%forward` shows without a port."""
    if not forwards:
        return [note("○", "no port is forwarded", "%forward PORT forwards one")]
    return [forward_line(forward, current) for forward in forwards]


def forwarded_ports(forwards: Sequence[Forward], current: str) -> Mapping[str, str]:
    """For each branch that has forwards: which of its ports lead where on this computer."""
    told: dict[str, list[str]] = {}
    for forward in forwards:
        words = f"port {forward.port} at 127.0.0.1:{forward.host_port}"
        told.setdefault(forward.branch or current, []).append(words)
    return {branch: ", ".join(ports) for branch, ports in told.items()}


def _connections(count: int) -> str:
    if not count:
        return ""
    return "1 connection" if count == 1 else f"{count} connections"


def copied_line(arrow: str, name: str, where: str, count: int, took_ms: float) -> Line:
    """A file that has been copied whole."""
    return Line(arrow, name, (where, size(count), duration(took_ms)))
