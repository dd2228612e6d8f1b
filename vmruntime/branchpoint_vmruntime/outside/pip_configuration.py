"""What the host's own pip is told by its files and variables, found where pip finds it."""

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_SECTIONS = ("global", "install")
_PREFIX = "PIP_"


def read(environment: Mapping[str, str]) -> dict[str, str]:
    """The options for installing, by their long names; what is closer to the user counts more.

    A file that cannot be read is passed over, as one that is not there.
    """
    found: dict[str, str] = {}
    for file in _files(environment):
        found |= _options(file)
    for name, value in environment.items():
        if name.startswith(_PREFIX) and value:
            found[_option(name.removeprefix(_PREFIX))] = value
    return found


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    named = environment.get("PIP_CONFIG_FILE", "")
    # The way to tell pip to read none.
    if named == os.devnull:
        return
    home = Path(environment.get("HOME") or Path.home())
    everywhere = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    yield from (Path(folder) / "pip" / "pip.conf" for folder in everywhere.split(":") if folder)
    yield Path("/etc/pip.conf")
    yield home / ".pip" / "pip.conf"
    yield Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)


def _options(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(file.read_text())
    except (OSError, ValueError, configparser.Error):
        return {}
    return {
        _option(name): value
        for section in _SECTIONS
        if parser.has_section(section)
        for name, value in parser.items(section)
        if value
    }


def _option(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")
