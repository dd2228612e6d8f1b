"""Names of hosts that only the kernel's process, as a test starts it, finds addresses for."""

from collections.abc import Mapping
from pathlib import Path

# Python runs a module of that name when it starts.
_MODULE = '''"""Made by a test: leads some names where it says."""

import socket

LEADS = {leads!r}
look_up = socket.getaddrinfo


def getaddrinfo(host, *others, **named):
    name = host.decode() if isinstance(host, bytes) else host
    return look_up(LEADS.get(name, name), *others, **named)


socket.getaddrinfo = getaddrinfo
'''


def names_lead(folder: Path, leads: Mapping[str, str]) -> dict[str, str]:
    """Variables for a Python process in which names lead to those addresses."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_MODULE.format(leads=dict(leads)))
    return {"PYTHONPATH": str(folder)}
