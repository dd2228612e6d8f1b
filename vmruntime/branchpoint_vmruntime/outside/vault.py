"""The secrets of a session: kept on the host, put into requests to the hosts they are bound to.

No value enters a machine, a file or a log. A machine holds placeholders instead, other ones in
every branch, and names with them the secret it means.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from branchpoint_vmruntime.errors import (
    BranchpointError,
    RefusedError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.outside import sources
from branchpoint_vmruntime.outside.binding import Binding, split_host
from branchpoint_vmruntime.outside.facts import SecretSpec
from branchpoint_vmruntime.outside.injection import (
    Headers,
    Template,
    credentials,
    fill_target,
    fill_value,
    forms,
    placeholders_in,
)
from branchpoint_vmruntime.outside.placeholders import LOOKS_LIKE_ONE, Placeholders
from branchpoint_vmruntime.outside.sources import Secret, Stamp

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A request's head as it goes out, and what must not come back: never shown."""

    target: bytes = field(repr=False)
    headers: Headers = field(repr=False)
    masks: tuple[bytes, ...] = field(repr=False, default=())


@dataclass(slots=True, kw_only=True)
class _Kept:
    """A secret, where it may go, and when its file was read."""

    spec: SecretSpec
    bindings: tuple[Binding, ...]
    template: Template | None
    value: Secret
    read_at: Stamp | None

    def goes_to(self, host: str) -> bool:
        try:
            name, port = split_host(host)
        except UsageError:
            # A machine may ask for anything; that is nobody's host.
            return False
        return any(binding.covers(name, port) for binding in self.bindings)


class Vault:
    """What is secret, and to which hosts and branches it is of use.

    A host is given as `HOST` or `HOST:PORT`; without a port, secrets bound to one port do not go.
    With a file for them, placeholders, never values, outlive this process.
    """

    def __init__(self, placeholders: Path | None = None) -> None:
        self._kept: dict[str, _Kept] = {}
        self._placeholders = Placeholders(placeholders)

    def add(self, spec: SecretSpec, value: str | None = None) -> None:
        """Take a secret in, its value read from its source unless given; UsageError in words.

        One of the same name is replaced, and its placeholders stay.
        """
        given = None if value is None else Secret.of(value)
        # Some tracebacks show local names.
        del value
        if not _NAME.fullmatch(spec.name):
            raise UsageError(
                f"{spec.name!r} cannot name a secret",
                hint="letters, digits and _, as in a variable's name: API_KEY",
            )
        if not spec.hosts:
            raise UsageError(
                f"the secret {spec.name} is bound to no host",
                hint="name the host it may be sent to: --host api.example.org",
            )
        bindings = tuple(Binding.parse(host) for host in spec.hosts)
        template = Template.parse(spec.header)
        self._refuse_a_second(spec.name, bindings, template)
        if given is None:
            found, read_at = _read(spec)
        else:
            found, read_at = sources.checked(spec.name, given, "the prompt"), None
        self._kept[spec.name] = _Kept(
            spec=spec, bindings=bindings, template=template, value=found, read_at=read_at
        )

    def _refuse_a_second(
        self, name: str, bindings: tuple[Binding, ...], template: Template | None
    ) -> None:
        for other in self._kept.values():
            same = template and other.template and template.means(other.template.name)
            if other.spec.name == name or not same:
                continue
            for binding in bindings:
                if any(binding.overlaps(theirs) for theirs in other.bindings):
                    raise UsageError(
                        f"requests to {binding} already get the header "
                        f"{other.template and other.template.name.decode()} "
                        f"from the secret {other.spec.name}",
                        hint="give one of them another host, or no header (--header none) and "
                        "write its placeholder into the request",
                    )

    def remove(self, name: str) -> None:
        """Forget a secret; UnknownNameError if there is none of that name."""
        if name not in self._kept:
            raise UnknownNameError("secret", name, tuple(self._kept))
        del self._kept[name]

    def names(self) -> list[SecretSpec]:
        """What is kept here, without values."""
        return [kept.spec for kept in self._kept.values()]

    def issue(self, branch: str) -> Mapping[str, str]:
        """The branch's placeholder for each secret by its name, made once and then the same.

        RefusedError if the branch was dropped.
        """
        return {name: self._placeholders.issue(branch, name) for name in self._kept}

    def inherit(self, branch: str, parent: str | None) -> None:
        """Let the branch use the placeholders its memory holds from its parent's.

        To be called for a new branch, and whenever one goes on from another's checkpoint.
        """
        self._placeholders.inherit(branch, parent)

    def revoke(self, branch: str) -> None:
        """Accept no request of a dropped branch any more, nor its placeholders from others.

        Descendants go on with what they inherited.
        """
        self._placeholders.revoke(branch)

    def needs(self, host: str) -> bool:
        """Whether a secret is bound to the host, so that HTTPS to it must be opened here."""
        return bool(self._bound_to(host))

    def inject(self, branch: str, host: str, target: bytes, headers: Headers) -> Injected:
        """A request's head with secrets in it, as it is to be sent to `host`.

        RefusedError, in words, if it bears a placeholder that is not for this branch and host, or
        if a secret it needs can no longer be read.
        """
        bound = self._bound_to(host)
        known = self._placeholders.known()
        used = {
            placeholder: self._kept_for(placeholder, branch, host)
            for placeholder in sorted(placeholders_in(target, headers, known))
        }
        if bound and self._placeholders.revoked(branch):
            raise RefusedError(f"the branch {branch!r} was dropped: no secret goes out for it")
        if not bound:
            return Injected(target=target, headers=headers)
        values = {kept.spec.name: _current(kept) for kept in (*used.values(), *_with_header(bound))}
        by_placeholder = {word: values[kept.spec.name].reveal() for word, kept in used.items()}
        filled = tuple((name, fill_value(value, by_placeholder)) for name, value in headers)
        changed = {
            name.lower()
            for (name, before), (_, after) in zip(headers, filled, strict=True)
            if before != after
        }
        # What an earlier request left there may come back in any reply.
        masks = _masks((values.get(it.spec.name, it.value) for it in bound), filled, changed)
        for kept in _with_header(bound):
            template = kept.template
            # A request that names a secret in that header by its placeholder knows what it wants.
            if template is not None and template.name.lower() not in changed:
                rest = tuple(header for header in filled if not template.means(header[0]))
                filled = (*rest, template.fill(values[kept.spec.name].reveal()))
        return Injected(target=fill_target(target, by_placeholder), headers=filled, masks=masks)

    def _bound_to(self, host: str) -> list[_Kept]:
        return [kept for kept in self._kept.values() if kept.goes_to(host)]

    def _kept_for(self, placeholder: str, branch: str, host: str) -> _Kept:
        """The secret a placeholder stands for in that branch's request to that host."""
        origin = self._placeholders.origin(placeholder)
        if origin is None:
            match = LOOKS_LIKE_ONE.fullmatch(placeholder.encode())
            name = match[1].decode() if match else "NAME"
            raise RefusedError(
                f"the request bears a placeholder for {name} that was not made here, or before "
                "this session was taken up again",
                hint=f"ask for the present one: branchpoint.secret({name!r})",
            )
        name = origin.name
        ask = f"ask for this branch's own: branchpoint.secret({name!r})"
        if self._placeholders.revoked(branch):
            raise RefusedError(f"the branch {branch!r} was dropped: no secret goes out for it")
        if not self._placeholders.held(branch, placeholder):
            whose = _whose(origin.branch, branch, dropped=self._placeholders.revoked(origin.branch))
            raise RefusedError(f"the request bears the placeholder for {name} of {whose}", hint=ask)
        kept = self._kept.get(name)
        if kept is None:
            raise RefusedError(
                f"the request bears a placeholder for {name}, which is no secret any more",
                hint=f"%secrets add {name} --host HOST makes it one again",
            )
        if not kept.goes_to(host):
            bound = ",".join(map(str, kept.bindings))
            raise RefusedError(
                f"the secret {name} is bound to {bound} and does not go to {host}",
                hint=f"bind it to this host as well: %secrets add {name} --host {bound},{host}",
            )
        return kept


def _whose(origin: str, branch: str, *, dropped: bool) -> str:
    if origin == branch:
        return f"an earlier branch {origin!r}, which was dropped"
    return f"the branch {origin!r}" + (", which was dropped" if dropped else "")


def _with_header(bound: Iterable[_Kept]) -> list[_Kept]:
    return [kept for kept in bound if kept.template is not None]


def _read(spec: SecretSpec) -> tuple[Secret, Stamp | None]:
    source = spec.source
    if source.variable is not None:
        return sources.from_variable(spec.name, source.variable), None
    if source.file is not None:
        return sources.from_file(spec.name, source.file)
    raise UsageError(
        f"there is no value for the secret {spec.name}, and no source to read it from",
        hint="name a variable (env:NAME) or a file (file:PATH) of the host",
    )


def _current(kept: _Kept) -> Secret:
    """The value, read anew if its file was written since."""
    file = kept.spec.source.file
    if kept.read_at is None or file is None or sources.stamp(file) == kept.read_at:
        return kept.value
    try:
        kept.value, kept.read_at = sources.from_file(kept.spec.name, file)
    except BranchpointError as error:
        raise RefusedError(str(error), hint=error.hint) from error
    return kept.value


def _masks(
    values: Iterable[Secret], filled: Headers, changed: Iterable[bytes]
) -> tuple[bytes, ...]:
    masks = {form for value in values for form in forms(value.reveal())}
    written = [credentials(value) for name, value in filled if name.lower() in changed]
    return tuple(sorted(masks | {text for text in written if text}, key=len, reverse=True))
