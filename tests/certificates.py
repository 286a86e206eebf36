"""Certificates of the tests' own: an authority, and what it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_VALID = dt.timedelta(days=2)

_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
"""What an authority uses its key for; Python 3.13 demands that it says so."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a certificate and of its private key."""

    certificate: Path
    key: Path

    @property
    def pem(self) -> str:
        return self.certificate.read_text(encoding="ascii")

    @property
    def key_pem(self) -> str:
        return self.key.read_text(encoding="ascii")


class Authority:
    """
    Signs certificates.

    :param folder: where its files are, and those of what it signs.
    :param name: its name.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = rsa_key()
        self._name = _named(name)
        self._certificate = self._signed(self._name, self._key, is_authority=True)
        self.certificate = folder / f"{name}.crt"
        self.certificate.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    @property
    def pem(self) -> str:
        return self.certificate.read_text(encoding="ascii")

    def issue(
        self,
        name: str,
        *,
        host: str | None = None,
        key: Key | None = None,
        key_format: PrivateFormat = PrivateFormat.PKCS8,
    ) -> Certificate:
        """Sign a certificate for a name, and for a host if it is a server's."""
        key = key or rsa_key()
        signed = self._signed(_named(name), key, host=host)
        files = Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        files.certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        files.key.write_bytes(key.private_bytes(Encoding.PEM, key_format, NoEncryption()))
        files.key.chmod(0o600)
        return files

    def _signed(
        self, subject: x509.Name, key: Key, *, host: str | None = None, is_authority: bool = False
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _VALID)
            .not_valid_after(now + _VALID)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            # Python 3.13 demands both identifiers.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if is_authority:
            builder = builder.add_extension(_SIGNS, critical=True)
        if host is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def in_der(pem: Path) -> Path:
    """Write a private key in another form, as the JDBC driver took it first."""
    key = serialization.load_pem_private_key(pem.read_bytes(), None)
    der = pem.with_suffix(".pk8")
    der.write_bytes(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
    der.chmod(0o600)
    return der


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
