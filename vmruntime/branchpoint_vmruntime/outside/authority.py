"""A session's certificate authority, for hosts whose HTTPS is opened here; and whom to trust."""

import contextlib
import os
import ssl
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from branchpoint_vmruntime.errors import DamagedError, StorageError
from branchpoint_vmruntime.outside import pip_configuration
from branchpoint_vmruntime.outside.names import address_of

FILE = "ca.pem"
# Kept for long: a clock that is set back must not come to before it began.
_CA_FROM = datetime(2020, 1, 1, tzinfo=UTC)
_CA_LIFE = timedelta(days=36500)
# The most that all clients accept.
_LEAF_LIFE = timedelta(days=397)
# A machine's clock may be behind the host's until it has been set.
_EARLIER = timedelta(days=2)
_MOST_LEAVES = 512
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Authority:
    """Signs a certificate for each host that is asked for. Its key stays on the host."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The authority kept in `folder`, made if there is none; StorageError, DamagedError."""
        file = folder / FILE
        try:
            text = file.read_bytes()
        except FileNotFoundError:
            return cls._make(file)
        except OSError as error:
            raise StorageError(f"cannot read {file}: {error.strerror}") from error
        try:
            key = serialization.load_pem_private_key(text, password=None)
            certificate = x509.load_pem_x509_certificate(text)
        except ValueError as error:
            raise _damaged(file) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise _damaged(file)
        return cls(key, certificate)

    @classmethod
    def _make(cls, file: Path) -> Self:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "branchpoint, this session")])
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            _blank(name, name, key.public_key(), _CA_FROM, _CA_FROM + _CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, hashes.SHA256())
        )
        try:
            _write(file, _key_pem(key) + _pem(certificate))
        except OSError as error:
            raise StorageError(f"cannot write {file}: {error.strerror}") from error
        return cls(key, certificate)

    @property
    def certificate_pem(self) -> str:
        """What a client needs to believe this authority."""
        return _pem(self._certificate).decode()

    def server_context(self, host: str) -> ssl.SSLContext:
        """To speak TLS as `host`, a name or an address in its one spelling."""
        context = self._contexts.get(host)
        if context is None:
            context = self._contexts[host] = self._context(host)
            if len(self._contexts) > _MOST_LEAVES:
                self._contexts.popitem(last=False)
        return context

    def _context(self, host: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        # The module of the standard library takes certificates from files alone: one in memory.
        with os.fdopen(os.memfd_create("leaf"), "wb") as file:
            file.write(_key_pem(self._leaf_key) + _pem(self._leaf(host)))
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return context

    def _leaf(self, host: str) -> x509.Certificate:
        address = address_of(host)
        named = x509.DNSName(host) if address is None else x509.IPAddress(address)
        public, signer = self._leaf_key.public_key(), self._key.public_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "opened by branchpoint")])
        begins = datetime.now(UTC) - _EARLIER
        server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        identifier = x509.SubjectKeyIdentifier.from_public_key(public)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer)
        return (
            _blank(subject, self._certificate.subject, public, begins, begins + _LEAF_LIFE)
            .add_extension(x509.SubjectAlternativeName([named]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(server, critical=False)
            .add_extension(identifier, critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def host_bundle(environment: Mapping[str, str] = os.environ) -> str:
    """The certificates that the host itself trusts, in PEM, and those its pip is told to trust.

    StorageError if none of the usual places has any.
    """
    named = [environment.get(name) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")]
    own = ssl.get_default_verify_paths()
    for place in (*named, own.cafile, own.openssl_cafile, *_BUNDLES):
        if place and (text := _read(place)):
            extra = _read(pip_configuration.read(environment).get("cert", ""))
            return text if extra in text else f"{text}\n{extra}"
    raise StorageError(
        "this host has no file of certificates to trust",
        hint="install the package ca-certificates, or name a file in SSL_CERT_FILE",
    )


def trust_bundle(authority: Authority, environment: Mapping[str, str] = os.environ) -> str:
    """What a machine trusts, in PEM: all that the host does, and the authority. StorageError."""
    return f"{host_bundle(environment).rstrip()}\n{authority.certificate_pem}"


def server_trust(environment: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """To speak TLS to servers whose certificates the host trusts. StorageError."""
    context = ssl.create_default_context(cadata=host_bundle(environment))
    context.set_alpn_protocols(["http/1.1"])
    return context


def _read(place: str) -> str:
    try:
        return Path(place).read_text() if place else ""
    except (OSError, ValueError):
        return ""


def _blank(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(file: Path, text: bytes) -> None:
    """Whole or not at all, and readable by the owner alone from its first byte on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # Made by mkstemp, which asks for mode 0600.
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as made:
        part = Path(made.name)
        try:
            made.write(text)
            made.close()
            part.replace(file)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()
            raise


def _damaged(file: Path) -> DamagedError:
    return DamagedError(
        f"{file} is not the session's certificate authority as it was written",
        hint=f"remove {file}: a new one is made, which machines trust once they wake anew",
    )
