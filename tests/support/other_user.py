"""Another user of this host, who runs branchpoint from a home of their own."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.homes import lend_base

from branchpoint_vmruntime.home import Home

_FIRST_UID = 47_310
_SYSTEM_PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = ("branchpoint_vmruntime", "branchpoint_kernel", "branchpoint_cli", "branchpoint_guest")
_IMPORTS = "import branchpoint_cli.commands, branchpoint_vmruntime.owner"


class NoOtherUserError(Exception):
    """Nobody else can be played here, or they could not run branchpoint."""


@dataclass(frozen=True, slots=True)
class OtherUser:
    """Runs commands as somebody else, with nothing of this process's environment."""

    uid: int
    home: Home
    python: str

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program as that user."""
        return subprocess.run(
            [*_as(self.uid), *command],
            env=_environment(self.home.root.parent),
            cwd=self.home.root.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def say(self, *words: str) -> str:
        """What `branchpoint` with these words writes; it must succeed."""
        done = self.run(self.python, "-P", "-m", "branchpoint_cli", *words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def other_user(lender: Home) -> Generator[OtherUser]:
    """One with a home that has the images and the base of `lender`; NoOtherUserError."""
    if os.getuid() != 0:
        raise NoOtherUserError("only root can become another user")
    if shutil.which("setpriv") is None:
        raise NoOtherUserError("there is no setpriv")
    uid = _free_uid()
    # Not below pytest's folders: those are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="branchpoint-other-"))
    try:
        folder.chmod(0o755)
        user = OtherUser(uid, Home(folder / "home", folder / "home/run"), _python_for(uid, folder))
        lend_base(lender, user.home)
        # Their own copy, linked block by block where the disk can: what is linked has one owner.
        images = ["cp", "-r", "--sparse=always", "--reflink=auto", f"{lender.images.resolve()}/."]
        subprocess.run([*images, user.home.images], check=True)
        subprocess.run(["chown", "-R", f"{uid}:{uid}", folder], check=True)
        folder.chmod(0o755)
        yield user
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_uid() -> int:
    taken = {user.pw_uid for user in pwd.getpwall()}
    return next(uid for uid in range(_FIRST_UID, _FIRST_UID + 1000) if uid not in taken)


def _python_for(uid: int, folder: Path) -> str:
    # One that lies in root's own folder cannot be run by others.
    for python in (sys.executable, _SYSTEM_PYTHON):
        command: Sequence[str] = [*_as(uid), python, "-P", "-c", _IMPORTS]
        try:
            subprocess.run(
                command, env=_environment(folder), cwd="/", capture_output=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    raise NoOtherUserError("another user could not run this Python, or read this checkout")


def _as(uid: int) -> tuple[str, ...]:
    become = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--")
    # setpriv itself still may look into root's folders; what it starts may not.
    return (*become, "sh", "-c", 'exec "$@"', "sh")


def _checkout() -> set[str]:
    # An installed checkout is found by a hook that only its own environment's Python has.
    specs = [find_spec(name) for name in _PACKAGES]
    return {str(Path(it.origin).parents[1]) for it in specs if it is not None and it.origin}


def _environment(folder: Path) -> dict[str, str]:
    return {
        "BRANCHPOINT_HOME": str(folder / "home"),
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([*_checkout(), *filter(None, sys.path)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
