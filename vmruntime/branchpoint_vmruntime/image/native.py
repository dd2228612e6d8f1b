"""Running a tree's programs through the tree's own loader: no chroot, no rights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.image.command import run_command
from branchpoint_vmruntime.image.epoch import BUILD_TIME_S

LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu",)


@dataclass(frozen=True, slots=True)
class NativeRunner:
    """Runs the programs of one tree, as they will be in the guest."""

    root: Path

    def run(
        self,
        program: str,
        *words: str | Path,
        purpose: str,
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run the tree's program with an environment of ours alone."""
        libraries = ":".join(str(self.root / folder) for folder in LIBRARY_FOLDERS)
        return run_command(
            [
                self.root / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
                "--library-path", libraries, self.root / program, *words,
            ],
            purpose=purpose,
            inherit=False,
            environment={
                "PATH": "/nonexistent",
                "HOME": "/nonexistent",
                "PYTHONHOME": str(self.root / "usr"),
                "PYTHONHASHSEED": "0",
                "SOURCE_DATE_EPOCH": str(BUILD_TIME_S),
                **(environment or {}),
            },
        )  # fmt: skip
