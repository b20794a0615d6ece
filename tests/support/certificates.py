"""A certificate for C2PA and its key, made here: a root of our own and a signer below it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def signing_files(folder: Path) -> dict[str, str]:
    """Write both as PEM files; `ProvenanceSettings` takes the answer."""
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    chain = _certificate("signer", key, root, authority=False) + _certificate("root", root, root, authority=True)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths = {"certificate": folder / "chain.pem", "private_key": folder / "key.pem"}
    paths["certificate"].write_bytes(chain)
    paths["private_key"].write_bytes(secret)
    return {name: str(path) for name, path in paths.items()}


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey, *, authority: bool
) -> bytes:
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name("root"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2056, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not authority,
                key_cert_sign=authority,
                crl_sign=authority,
                decipher_only=False,
                **usage,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), critical=False)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "A newsroom"), x509.NameAttribute(NameOID.COMMON_NAME, text)]
    )
