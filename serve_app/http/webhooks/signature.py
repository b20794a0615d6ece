"""Signatures of messages: Standard Webhooks 1.0.0, symmetric (`v1`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Make a secret of 256 random bits, as receivers keep it: `whsec_` and base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signed_headers(message_id: str, at_s: int, body: bytes, signed_with: Iterable[str]) -> dict[str, str]:
    """Write the headers of a message.

    A signature is HMAC-SHA256 over `{id}.{timestamp}.{body}`, in base64 after `v1,`; with several secrets they stand side by side,
    and a receiver needs to know one of them.

    Args:
        message_id: Id of the message, without a dot.
        at_s: Unix seconds of this attempt.
        body: What is sent.
        signed_with: Secrets as `new_secret` makes them.
    """
    signed = b".".join((message_id.encode(), str(at_s).encode(), body))
    keys = (base64.b64decode(one.removeprefix(PREFIX)) for one in signed_with)
    signatures = (base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys)
    return {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{one}" for one in signatures),
    }
