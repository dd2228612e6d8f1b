"""Small package files, made by the real dpkg-deb."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

MakeDeb = Callable[..., Path]


@pytest.fixture
def make_deb(tmp_path: Path) -> MakeDeb:
    """`make_deb(name, files={...}, links={...}, control={...})` is the path of a package."""

    def make(
        name: str,
        *,
        files: Mapping[str, str],
        links: Mapping[str, str] | None = None,
        control: Mapping[str, str] | None = None,
        modes: Mapping[str, int] | None = None,
    ) -> Path:
        source = tmp_path / "source" / name
        write_files(source, files)
        for path, target in (links or {}).items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).symlink_to(target)
        for path, mode in (modes or {}).items():
            (source / path).chmod(mode)
        fields = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody\n"
        control = {"control": fields + "Description: a test\n", **(control or {})}
        write_files(source / "DEBIAN", control)
        for script in ("preinst", "postinst"):
            if script in control:
                (source / "DEBIAN" / script).chmod(0o755)
        deb = tmp_path / f"{name}_1.0_all.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Znone", "-b", source, deb],
            check=True,
            capture_output=True,
        )
        return deb

    return make


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write every file, with the folders it needs."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
