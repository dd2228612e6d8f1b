"""Accounts and links are what the packages' scripts would have made."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.image.conftest import write_files

from branchpoint_vmruntime.image.configure import shadowed, write_accounts

accounts = st.lists(
    st.from_regex(r"[a-z]{1,8}:\*:[0-9]{1,5}:[0-9]{1,5}::/:/bin/sh", fullmatch=True)
)


@given(accounts)
def test_no_password_stays_beside_an_account(lines: list[str]) -> None:
    hidden = shadowed("".join(f"{line}\n" for line in lines)).splitlines()
    assert [line.split(":")[1] for line in hidden] == ["x"] * len(lines)
    assert [line.split(":")[0] for line in hidden] == [line.split(":")[0] for line in lines]


def test_every_account_and_group_is_locked_in_the_shadow_files(tmp_path: Path) -> None:
    passwd = "root:*:0:0:root:/root:/bin/bash\n"
    write_files(tmp_path / "etc", {"passwd": passwd, "group": "root:*:0:\ntty:*:5:\n"})
    write_accounts(tmp_path)
    shadow = (tmp_path / "etc/shadow").read_text().splitlines()
    assert [line.split(":")[:2] for line in shadow] == [["root", "*"], ["_apt", "*"]]
    assert (tmp_path / "etc/gshadow").read_text() == "root:*::\ntty:*::\n"
    assert (tmp_path / "etc/shadow").stat().st_mode & 0o077 == 0o040
