"""What a real machine's processes have of the variables and files the host gives them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.outside.facts import Outfit
from branchpoint_vmruntime.owned_session import OwnedSession

pytestmark = pytest.mark.vm

LOAD = """
import os, ssl
os.environ["SSL_CERT_FILE"] = "/run/branchpoint/ca.pem"
len(ssl.create_default_context().get_ca_certs()) > 10
"""


@asynccontextmanager
async def opened(home: Home) -> AsyncGenerator[OwnedSession]:
    """A session without a notebook."""
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        yield session


async def text(session: OwnedSession, code: str) -> str:
    """What code prints and gives."""
    result = await session.current.run(code)
    assert result.status == "ok", result
    return result.text.strip()


@in_a_loop
async def test_variables_reach_the_kernel_its_children_and_commands_and_leave_them_again(
    home: Home,
) -> None:
    async with opened(home) as session:
        machine = session.current.machine
        given = Outfit(environment={"X": "a word", "Y": "another"})
        await machine.outfit(given, timeout_s=60)
        assert await text(session, "import os; os.environ['X']") == "'a word'"
        assert await text(session, "!echo $X, $Y") == "a word, another"
        command = await machine.execute(["sh", "-c", "echo $X, $Y"])
        assert command.stdout == "a word, another\n"
        await machine.outfit(Outfit(environment={"X": None}), timeout_s=60)
        assert await text(session, "'X' in os.environ") == "False"
        assert await text(session, "!echo $X, $Y") == ", another"
        assert (await machine.execute(["sh", "-c", "echo $X, $Y"])).stdout == ", another\n"


@in_a_loop
async def test_certificates_are_trusted_from_boot_and_replaced_by_what_is_given(home: Home) -> None:
    async with opened(home) as session:
        assert await text(session, LOAD) == "True"
        told = "!apt-config dump Acquire::https::CaInfo; stat -c %a /run/branchpoint/ca.pem"
        assert (await text(session, told)).splitlines() == [
            'Acquire::https::CaInfo "/run/branchpoint/ca.pem";',
            "644",
        ]
        await session.current.machine.outfit(Outfit(files={"ca.pem": "no more"}), timeout_s=60)
        assert await text(session, "!cat /run/branchpoint/ca.pem") == "no more"
