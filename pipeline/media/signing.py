"""C2PA manifests: a finished mp4 carries, signed with the operator's certificate, that it was computed and by what."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from kernels.errors import InvalidInputError, LiveAnchorError, first_line
from pipeline.config import Settings
from pipeline.media.provenance import SOURCE_TYPE

MP4: Final = "video/mp4"
PNG: Final = "image/png"
GENERATOR: Final = "LiveAnchor"

Sign = Callable[[bytes], bytes]
"""A whole mp4 -> the same with a signed manifest. It takes some ms per MB: call it in a thread."""


class SigningError(LiveAnchorError):
    """A file could not be signed."""

    code = "signing_failed"


class ProvenanceSettings(Settings):
    """Signs finished files where a certificate is given. Streams cannot be signed: nobody has their end when they begin."""

    certificate: str = Field(
        "", description="PEM file of the certificate and its chain, the signer's own first. Empty: no manifest."
    )
    private_key: str = Field("", description="PEM file of its key, readable by the service alone.")
    algorithm: Literal["es256", "es384", "es512", "ps256", "ps384", "ps512", "ed25519"] = Field(
        "es256", description="What the key signs with."
    )
    timestamps: str = Field("", description="Address of a time stamp authority (RFC 3161); empty: no time stamps.")

    @model_validator(mode="after")
    def _together(self) -> Self:
        if bool(self.certificate) != bool(self.private_key):
            raise ValueError("certificate and private_key, or neither")
        return self


def signer_of(settings: ProvenanceSettings) -> Sign | None:
    """What signs files; None where no certificate is given. A certificate that cannot be used is refused here, not with a file.

    Raises:
        InvalidInputError: A file cannot be read, the two do not fit each other, or the library is missing.
    """
    if not settings.certificate:
        return None
    if find_spec("c2pa") is None:
        raise InvalidInputError(
            "provenance.certificate", "a certificate", "pip install 'liveanchor[c2pa]' on every node"
        )
    certificate = _read("provenance.certificate", settings.certificate)
    key = _read("provenance.private_key", settings.private_key)
    sign = _Signer(certificate, key, settings.algorithm, settings.timestamps)
    sign.check()
    return sign


class _Signer:
    """Implements `Sign`.

    Args:
        certificate: PEM of the chain.
        key: PEM of the key.
        algorithm: Name of the algorithm.
        timestamps: Address of a time stamp authority, or empty.
    """

    def __init__(self, certificate: bytes, key: bytes, algorithm: str, timestamps: str) -> None:
        self._facts = (algorithm.encode(), certificate, key, timestamps.encode() or None)

    def __call__(self, mp4: bytes) -> bytes:
        import c2pa

        try:
            return self._signed(mp4, MP4)
        except c2pa.C2paError as error:
            raise SigningError(first_line(error)) from error

    def check(self) -> None:
        """Sign a picture of one pixel; raise InvalidInputError where that cannot be."""
        import c2pa
        from PIL import Image

        picture = io.BytesIO()
        Image.new("RGB", (1, 1)).save(picture, "PNG")
        try:
            self._signed(picture.getvalue(), PNG)
        except c2pa.C2paError as error:
            what = "a certificate and a key that cannot sign"
            allowed = "a chain for C2PA and its key, PEM, of provenance.algorithm"
            said = f"they cannot sign ({first_line(error)})"
            raise InvalidInputError("provenance.certificate", what, allowed, said) from error

    def _signed(self, data: bytes, kind: str) -> bytes:
        import c2pa

        signed = io.BytesIO()
        with self._signer() as signer, c2pa.Builder(json.dumps(_MANIFEST | {"format": kind})) as builder:
            builder.sign(signer, kind, io.BytesIO(data), signed)
        return signed.getvalue()

    def _signer(self) -> Any:
        import c2pa

        return c2pa.Signer.from_info(c2pa.C2paSignerInfo(*self._facts))


_MANIFEST: Final = {
    "claim_generator_info": [{"name": GENERATOR}],
    "assertions": [
        {
            "label": "c2pa.actions.v2",
            "data": {
                "actions": [
                    {
                        "action": "c2pa.created",
                        "digitalSourceType": SOURCE_TYPE,
                        "softwareAgent": {"name": GENERATOR},
                    }
                ]
            },
        }
    ],
}


def _read(field: str, path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise InvalidInputError(
            field, f"{path} ({error.strerror})", "the path of a PEM file that can be read"
        ) from error
