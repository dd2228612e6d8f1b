"""The certificate authority of a session."""

import errno
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from tests.support.fake_streams import FakeChannel
from tests.support.front_end import in_a_loop
from tests.unit.outside.egress import TlsClient

from branchpoint_vmruntime.errors import DamagedError, StorageError
from branchpoint_vmruntime.outside.authority import FILE, Authority, host_bundle, trust_bundle
from branchpoint_vmruntime.outside.tasks import together
from branchpoint_vmruntime.outside.wire import TlsWire


def test_a_session_has_one_authority_for_ever(tmp_path: Path) -> None:
    made = Authority.of(tmp_path / "session")
    assert Authority.of(tmp_path / "session").certificate_pem == made.certificate_pem


def test_two_sessions_have_two(tmp_path: Path) -> None:
    one, other = Authority.of(tmp_path / "a"), Authority.of(tmp_path / "b")
    assert one.certificate_pem != other.certificate_pem


def test_a_clock_that_is_set_back_by_years_comes_to_no_time_before_it(tmp_path: Path) -> None:
    pem = Authority.of(tmp_path).certificate_pem.encode()
    years_ago = datetime.now(UTC) - timedelta(days=5 * 365)
    assert x509.load_pem_x509_certificate(pem).not_valid_before_utc < years_ago


def test_its_key_is_its_owners_alone_and_never_given_away(tmp_path: Path) -> None:
    authority = Authority.of(tmp_path)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in authority.certificate_pem


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN CERTIFICATE-----\n"])
def test_what_is_no_authority_is_told_as_such(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DamagedError):
        Authority.of(tmp_path)


def test_an_authority_that_cannot_be_kept_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        Authority.of(tmp_path / "file" / "folder")


def test_of_an_authority_that_cannot_be_kept_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Path, _target: Path) -> Path:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageError):
        Authority.of(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["api.example.org", "127.0.0.1", "::1", "x" * 63 + ".example.org"])
def test_a_client_that_trusts_it_believes_every_host(tmp_path: Path, host: str) -> None:
    authority = Authority.of(tmp_path)

    @in_a_loop
    async def shake_hands() -> None:
        channel = FakeChannel()
        end = channel.guest_opens("egress")
        client = TlsClient(end, authority, host)

        async def serve() -> None:
            wire = await TlsWire.accept(await channel.accept(), authority.server_context(host))
            await wire.write(b"hello")
            await wire.finish()

        async def ask() -> None:
            await client.hello()
            assert await client.read() == b"hello"
            assert await client.read() == b""

        await together(serve(), ask())

    shake_hands()


def test_its_certificates_satisfy_the_strictest_clients(tmp_path: Path) -> None:
    authority = Authority.of(tmp_path)
    certificate = x509.load_pem_x509_certificate(authority.certificate_pem.encode())
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).critical
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.value.key_cert_sign


def test_a_context_is_made_once_for_a_host(tmp_path: Path) -> None:
    authority = Authority.of(tmp_path)
    assert authority.server_context("a.example.org") is authority.server_context("a.example.org")


def test_machines_trust_what_the_host_trusts_and_the_session(tmp_path: Path) -> None:
    authority, other = Authority.of(tmp_path / "a"), Authority.of(tmp_path / "b")
    (tmp_path / "bundle.pem").write_text(other.certificate_pem)
    environment = {"SSL_CERT_FILE": str(tmp_path / "bundle.pem"), "PIP_CONFIG_FILE": os.devnull}
    bundle = trust_bundle(authority, environment)
    assert bundle.count("BEGIN CERTIFICATE") == 2
    context = ssl.create_default_context(cadata=bundle)
    assert len(context.get_ca_certs()) == 2


def test_what_the_hosts_pip_trusts_is_trusted_as_well(tmp_path: Path) -> None:
    authority, other = Authority.of(tmp_path / "a"), Authority.of(tmp_path / "b")
    (tmp_path / "bundle.pem").write_text(authority.certificate_pem)
    (tmp_path / "pip.pem").write_text(other.certificate_pem)
    environment = {
        "SSL_CERT_FILE": str(tmp_path / "bundle.pem"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_CERT": str(tmp_path / "pip.pem"),
    }
    assert other.certificate_pem in host_bundle(environment)
