"""What the host gives the user's processes: variables and files."""

from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.guest.test_guestd import guestd

from branchpoint_guest.installing import trust
from branchpoint_guest.outfit import Outfit
from branchpoint_vmruntime.errors import GuestRefusedError


def test_variables_are_set_in_later_processes_and_taken_away(tmp_path: Path) -> None:
    outfit = Outfit(tmp_path)
    assert outfit.dress({"HOME": "/root"}) == {"HOME": "/root"}
    outfit.take({"A": "1", "B": "2"}, {}, {})
    outfit.take({"A": None, "HOME": None, "C": "3"}, {}, {})
    assert outfit.dress({"HOME": "/root", "PATH": "/bin"}) == {"PATH": "/bin", "B": "2", "C": "3"}


def test_a_file_is_replaced_as_a_whole_for_everyone_to_read(tmp_path: Path) -> None:
    outfit = Outfit(tmp_path)
    outfit.take({}, {"ca.pem": "first"}, {"ca.pem": "1"})
    with (tmp_path / "ca.pem").open() as before:
        outfit.take({}, {"ca.pem": "ö"}, {"ca.pem": "2"})
        assert before.read() == "first"
    assert (tmp_path / "ca.pem").read_text() == "ö"
    assert (tmp_path / "ca.pem").stat().st_mode & 0o777 == 0o644
    assert [file.name for file in tmp_path.iterdir()] == ["ca.pem"]


def test_a_file_is_lacking_unless_it_is_there_as_it_should_be(tmp_path: Path) -> None:
    outfit = Outfit(tmp_path)
    assert outfit.take({}, {}, {"a": "1", "b": "1"}) == ["a", "b"]
    assert outfit.take({}, {"a": "", "b": ""}, {"a": "1", "b": "1"}) == []
    (tmp_path / "a").unlink()
    assert outfit.take({}, {}, {"a": "1", "b": "2"}) == ["a", "b"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\0b"])
def test_a_file_elsewhere_is_refused_and_nothing_is_done(tmp_path: Path, name: str) -> None:
    outfit = Outfit(tmp_path)
    with pytest.raises(ValueError, match="cannot name a file"):
        outfit.take({"A": "1"}, {"ca.pem": "", name: ""}, {"ca.pem": "1", name: "1"})
    assert list(tmp_path.iterdir()) == []
    assert outfit.dress({}) == {}


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("A=B", "x"), ("A\0", None), ("A", "\0")])
def test_a_variable_that_cannot_be_set_is_refused(
    tmp_path: Path, name: str, value: str | None
) -> None:
    outfit = Outfit(tmp_path)
    with pytest.raises(ValueError, match="cannot be set"):
        outfit.take({name: value}, {}, {})
    assert outfit.dress({}) == {}


@in_a_loop
async def test_guestd_takes_an_outfit_and_starts_commands_in_it(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        fields: dict[str, object] = {"environment": {"NAME": "ridge", "HOME": None}}
        fields |= {"files": {"x.txt": "text"}, "digests": {"x.txt": "1", "y.txt": "1"}}
        assert (await it.link.ask("outfit", fields, timeout_s=120))["lacking"] == ["y.txt"]
        assert (tmp_path / "x.txt").read_text() == "text"
        result = await it.run("sh", "-c", 'echo "$NAME ${HOME-none}"')
        assert result["stdout"] == "ridge none\n"


@in_a_loop
async def test_guestd_says_in_words_what_it_cannot_take(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        fields: dict[str, object] = {"environment": {}, "files": {"../x": ""}, "digests": {}}
        with pytest.raises(GuestRefusedError, match="cannot name a file"):
            await it.link.ask("outfit", fields, timeout_s=120)
        assert await it.is_alive()


@in_a_loop
async def test_without_a_hook_no_kernel_sets_variables(tmp_path: Path) -> None:
    async with guestd(tmp_path) as it:
        fields = {"environment": {"A": "1"}, "timeout_s": 20.0}
        assert (await it.link.ask("environment", fields, timeout_s=120))["environment"] is None


def test_at_boot_the_images_certificates_are_trusted_and_apt_told(tmp_path: Path) -> None:
    bundle = tmp_path / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True)
    (tmp_path / "run/branchpoint").mkdir(parents=True)
    bundle.write_text("certificates")
    trust(tmp_path)
    trusted = tmp_path / "run/branchpoint/ca.pem"
    assert trusted.read_text() == "certificates"
    assert trusted.stat().st_mode & 0o777 == 0o644
    told = (tmp_path / "etc/apt/apt.conf.d/99branchpoint").read_text()
    assert told == 'Acquire::https::CaInfo "/run/branchpoint/ca.pem";\n'


def test_programs_that_heed_no_variable_find_the_same_certificates(tmp_path: Path) -> None:
    bundle = tmp_path / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True)
    (tmp_path / "run/branchpoint").mkdir(parents=True)
    bundle.write_text("certificates")
    for _ in range(2):
        trust(tmp_path)
    assert bundle.read_text() == "certificates"
    (tmp_path / "run/branchpoint/ca.pem").write_text("and the session's")
    assert bundle.read_text() == "and the session's"


def test_an_image_without_certificates_boots_all_the_same(tmp_path: Path) -> None:
    trust(tmp_path)
    assert list(tmp_path.iterdir()) == []
