"""Modules are loaded after what they need."""

import lzma
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.modules import (
    SIGNATURE,
    load_order,
    read_module,
    without_signature,
)


def module(*needs: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + ",".join(needs).encode() + b"\0name=x\0"


def kernel(root: Path, modules: dict[str, bytes], *, built_in: str = "") -> Path:
    folder = root / "lib/modules/6.1"
    (folder / "kernel").mkdir(parents=True)
    for name, content in modules.items():
        (folder / "kernel" / name).write_bytes(content)
    (folder / "modules.builtin").write_text(built_in)
    return root


def test_each_module_comes_after_what_it_needs(tmp_path: Path) -> None:
    modules = {
        "virtio-blk.ko": module("virtio", "virtio_ring"),
        "virtio.ko": module("virtio_ring"),
        "virtio_ring.ko": module(),
        "unrelated.ko": module(),
    }
    order = [m.name for m in load_order(kernel(tmp_path, modules), ["virtio_blk"])]
    assert order == ["virtio_ring", "virtio", "virtio_blk"]


def test_what_is_built_in_is_not_loaded(tmp_path: Path) -> None:
    tree = kernel(tmp_path, {"a.ko": module("b")}, built_in="kernel/drivers/b.ko\n")
    assert [m.name for m in load_order(tree, ["a"])] == ["a"]


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageBuildError, match="no module nothing"):
        load_order(kernel(tmp_path, {}), ["nothing"])


def test_packed_modules_are_unpacked(tmp_path: Path) -> None:
    tree = kernel(tmp_path, {"a.ko.xz": lzma.compress(module())})
    (loaded,) = load_order(tree, ["a"])
    assert loaded.content == module()


def test_an_unknown_packing_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.ko.zst").write_bytes(b"")
    with pytest.raises(ImageBuildError, match=r"\.zst"):
        read_module(tmp_path / "a.ko.zst")


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_only_the_signature_is_cut_off(body: bytes, signature: bytes) -> None:
    information = bytes(8) + len(signature).to_bytes(4, "big")
    assert without_signature(body + signature + information + SIGNATURE) == body


@given(st.binary(max_size=64))
def test_a_module_without_a_signature_stays_as_it_is(body: bytes) -> None:
    assume(not body.endswith(SIGNATURE))
    assert without_signature(body) == body


def test_the_mark_of_a_signature_alone_is_no_signature() -> None:
    assert without_signature(SIGNATURE) == SIGNATURE
