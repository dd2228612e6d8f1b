"""What the host gives the user's processes on waking: variables, and files beside the identity."""

from pathlib import Path

# The variables, for who starts processes beside guestd; a name no file from the host can have.
ENVIRONMENT = ".environment"


class Outfit:
    """Variables as last given, and where the files are put."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment: dict[str, str | None] = {}
        self._digests: dict[str, str] = {}

    def take(
        self, environment: dict[str, str | None], files: dict[str, str], digests: dict[str, str]
    ) -> list[str]:
        """Put the files in place, and remember the variables; None takes one away.

        They are written down as well, for those beside guestd who start processes.

        Returns which of the files in `digests` are not here with that digest: the host sends only
        those, since most machines wake with what they were given before. ValueError if a name
        cannot be one; then nothing was done.
        """
        for name in files:
            if name in ("", ".", "..", ENVIRONMENT) or "/" in name or "\0" in name:
                raise ValueError(f"{name!r} cannot name a file in {self._folder}")
        for name, value in environment.items():
            if not name or "=" in name or "\0" in f"{name}{value or ''}":
                raise ValueError(f"{name!r} cannot be set as a variable")
        for name, text in files.items():
            self._place(name, text)
            self._digests[name] = digests[name]
        self._environment |= environment
        if environment:
            self._write_down()
        return [name for name, digest in digests.items() if not self._has(name, digest)]

    def dress(self, environment: dict[str, str]) -> dict[str, str]:
        """A process's environment, with what was given."""
        dressed = {**environment, **self._environment}
        return {name: value for name, value in dressed.items() if value is not None}

    def _has(self, name: str, digest: str) -> bool:
        return self._digests.get(name) == digest and (self._folder / name).exists()

    def _place(self, name: str, text: str) -> None:
        """Nobody is to read half of it, and who has opened the former one keeps it whole."""
        written = self._folder / f".{name}.new"
        written.write_text(text)
        written.chmod(0o644)
        written.replace(self._folder / name)

    def _write_down(self) -> None:
        each = (
            name if value is None else f"{name}={value}"
            for name, value in self._environment.items()
        )
        self._place(ENVIRONMENT, "\0".join(each))


def variables_in(text: str) -> dict[str, str | None]:
    """The variables in a file `ENVIRONMENT`; None takes one away."""
    pairs = (variable.partition("=") for variable in text.split("\0") if variable)
    return {name: value if sign else None for name, sign, value in pairs}
