"""Ports for kernels that jupyter_client starts where no test can hand it any."""

import pytest
from jupyter_client.connect import LocalPortCache
from tests.support.ports import free_port


def kernels_get_free_ports(patch: pytest.MonkeyPatch) -> None:
    """Have kernels listen where nobody is sent meanwhile who asks for any port.

    They bind their ports a second after jupyter_client (8.10) has picked them, or later.
    """
    patch.setattr(LocalPortCache, "find_available_port", _find_available_port)


def _find_available_port(cache: LocalPortCache, ip: str) -> int:
    assert ip == "127.0.0.1"
    while (port := free_port()) in cache.currently_used_ports:
        pass
    cache.currently_used_ports.add(port)
    return port
