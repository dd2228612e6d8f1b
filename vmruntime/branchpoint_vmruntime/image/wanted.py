"""What an image is to hold beyond the everyday: packages by name, checked and brought into order.

Pure. The same packages in another order, or written otherwise, are the same image.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from branchpoint_vmruntime.errors import UsageError

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSION = r"[A-Za-z0-9][A-Za-z0-9.*+!_-]*"
_SPECIFIER = rf"(?:===|==|~=|!=|<=|>=|<|>)\s*{_VERSION}"
_REQUIREMENT = re.compile(
    rf"(?P<name>{_NAME})\s*(?:\[(?P<extras>[A-Za-z0-9._,\s-]*)\])?"
    rf"\s*(?P<versions>{_SPECIFIER}(?:\s*,\s*{_SPECIFIER})*)?"
)
_DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]")
_LONGEST = 200

_PYTHON_ACCEPTED = (
    "write a name as pip installs it from an index, with versions if need be: scikit-learn, "
    "'scipy>=1.11,<2'; no addresses, folders, options or conditions"
)
_DEBIAN_ACCEPTED = (
    "write the name of a package of Debian: graphviz, g++; no version, address, file or option"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """Python and Debian packages that are to be in an image, in the order of their names."""

    python: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()

    @classmethod
    def of(cls, python: Sequence[str] = (), debian: Sequence[str] = ()) -> "ImageSpec":
        """The packages as they are written; UsageError about the first that cannot be.

        >>> ImageSpec.of(python=["SciPy >= 1.11", "attrs"]).python
        ('attrs', 'scipy>=1.11')
        """
        return cls(
            python=_ordered(python, parse_python, project_name),
            debian=_ordered(debian, parse_debian, str),
        )


def parse_python(text: str) -> str:
    """One requirement, as this project writes it.

    >>> parse_python("Scikit_Learn [B, a] < 2, >=1.4")
    'scikit-learn[a,b]<2,>=1.4'
    """
    said = text.strip()
    match = _REQUIREMENT.fullmatch(said) if len(said) <= _LONGEST else None
    if match is None:
        raise UsageError(f"{said[:_LONGEST]!r} is no Python package", hint=_PYTHON_ACCEPTED)
    extras = sorted({canonical(part) for part in _parts(match["extras"])})
    versions = sorted("".join(part.split()) for part in _parts(match["versions"]))
    chosen = f"[{','.join(extras)}]" if extras else ""
    return canonical(match["name"]) + chosen + ",".join(versions)


def parse_debian(text: str) -> str:
    """One package of Debian.

    >>> parse_debian("g++")
    'g++'
    """
    said = text.strip()
    if len(said) > _LONGEST or not _DEBIAN.fullmatch(said):
        raise UsageError(f"{said[:_LONGEST]!r} is no Debian package", hint=_DEBIAN_ACCEPTED)
    return said


def project_name(requirement: str) -> str:
    """The name in a requirement or a line of a lock.

    >>> project_name("numpy==2.4.1 --hash=sha256:00"), project_name("scipy[x]>=1")
    ('numpy', 'scipy')
    """
    return canonical(re.split(r"[\s\[<>=!~]", requirement, maxsplit=1)[0])


def canonical(name: str) -> str:
    """A project's name as an index keeps it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _parts(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part.strip()]


def _ordered(
    texts: Sequence[str], parse: Callable[[str], str], name_of: Callable[[str], str]
) -> tuple[str, ...]:
    named: dict[str, str] = {}
    for text in texts:
        package = parse(text)
        if named.setdefault(name_of(package), package) != package:
            raise UsageError(
                f"{name_of(package)} is asked for as {named[name_of(package)]} and as {package}",
                hint="name it once",
            )
    return tuple(named[name] for name in sorted(named))
