"""Certificates of the tests' own: an authority, and what it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from demo.kafka.broker import HOST


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, both as PEM."""

    certificate: str
    key: str


class Authority:
    """An authority that nobody but the tests trusts."""

    def __init__(self, name: str) -> None:
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return _pem(self._certificate)

    def sign(self, name: str) -> Certificate:
        """Return a certificate for this machine, as a server and as a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
        certificate = (
            _builder(_named(name), self._name, key)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Certificate(_pem(certificate), encoded.decode())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
