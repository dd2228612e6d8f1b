"""The archive is one the kernel reads, and the same for the same entries."""

import stat

from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.image.cpio import Entry, character_device, folder, pack, regular

names = st.from_regex(r"[a-z]{1,12}(/[a-z]{1,12}){0,2}", fullmatch=True)
entries = st.lists(st.builds(regular, names, st.binary(max_size=64)), max_size=8)


def read(archive: bytes) -> list[Entry]:
    """A reader as the format's description has it, apart from the writer."""
    found: list[Entry] = []
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + i * 8 : at + 14 + i * 8], 16) for i in range(13)]
        mode, size, major, minor, name_size = (fields[i] for i in (1, 6, 9, 10, 11))
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        at = -(-(at + 110 + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return found
        found.append(Entry(name, mode, archive[at : at + size], (major, minor)))
        at = -(-(at + size) // 4) * 4


@given(entries)
def test_what_is_packed_is_read_back(packed: list[Entry]) -> None:
    assert read(pack(packed)) == packed


@given(entries)
def test_the_same_entries_are_the_same_bytes(packed: list[Entry]) -> None:
    assert pack(packed) == pack(iter(packed))


def test_folders_and_devices_are_what_they_are() -> None:
    made = read(pack([folder("dev"), character_device("dev/console", 5, 1)]))
    assert stat.S_ISDIR(made[0].mode)
    assert stat.S_ISCHR(made[1].mode)
    assert made[1].device == (5, 1)
