"""A package index made of files: for a web server to serve, and for pip to install from."""

import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
_WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_LEFT_OUT = (".so", ".pyc", "/INSTALLER", "/REQUESTED", "/direct_url.json")


class Index:
    """A folder for each project, with its wheels: what a web server lists, pip understands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Asked by what wants to know where an index has its files.
        (folder / "wheel").mkdir(parents=True)

    def add(self, name: str, source: str) -> None:
        """A package of one module."""
        info = f"{name}-1.0.dist-info"
        files = {
            f"{name}.py": source,
            f"{info}/METADATA": _METADATA.format(name=name, version="1.0"),
            f"{info}/WHEEL": _WHEEL,
            f"{info}/RECORD": "",
        }
        with zipfile.ZipFile(self._wheel(name, "1.0"), "w") as wheel:
            for place, text in files.items():
                wheel.writestr(place, text)

    def add_installed(self, *names: str) -> None:
        """Packages as they are installed here, and all that they need; but compiled parts."""
        found: dict[str, Distribution] = {}
        wanted = list(names)
        while wanted:
            name = canonicalize_name(wanted.pop())
            if name not in found:
                found[name] = distribution(name)
                wanted += _needed(found[name])
        for each in found.values():
            self._pack(each)

    def _pack(self, installed: Distribution) -> None:
        with zipfile.ZipFile(self._wheel(installed.name, installed.version), "w") as wheel:
            for file in installed.files or []:
                if ".." not in file.parts and not str(file).endswith(_LEFT_OUT):
                    wheel.write(str(file.locate()), str(file))

    def _wheel(self, name: str, version: str) -> Path:
        folder = self._folder / canonicalize_name(name)
        folder.mkdir()
        return folder / f"{canonicalize_name(name).replace('-', '_')}-{version}-py3-none-any.whl"


def _needed(installed: Distribution) -> list[str]:
    requirements = map(Requirement, installed.requires or [])
    return [
        it.name for it in requirements if it.marker is None or it.marker.evaluate({"extra": ""})
    ]
