"""What an API key is: its text, which is shown once, and what is kept of it."""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from collections.abc import Iterable
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from kernels.errors import InvalidInputError

Scope = Literal["generate", "live", "avatars", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
KEY_PREFIX: Final = "la_key_"
"""Beginning of every key, for people and for programs that look for secrets in text."""
TOKEN_PREFIX: Final = "la_tok_"  # noqa: S105  # how a token begins
"""Beginning of every session token."""
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_DIGITS: Final = 43
"""Digits of base 62 that 32 random bytes take."""
_CHECK_DIGITS: Final = 6
_FORM: Final = re.compile(f"{KEY_PREFIX}([0-9A-Za-z]{{{_SECRET_DIGITS}}})([0-9A-Za-z]{{{_CHECK_DIGITS}}})")
KEY_ID: Final = re.compile(r"k[0-9a-f]{12}")


class Kept(BaseModel):
    """Base of what stands in the file of keys: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Secret(Kept):
    """SHA-256 of a key's text in hexadecimal digits, and the second since the epoch from which it is refused; None: never.

    The text is 256 random bits, so a slow hash would protect nothing more.
    """

    digest: str = Field(pattern="^[0-9a-f]{64}$")
    expires_at: float | None = None


class ApiKey(Kept):
    """What is kept of a key.

    Attributes:
        key_id: Name of the key in lists and logs, no secret; what is made with the key belongs to this id.
        name: Name for people.
        scopes: What it allows; `admin` allows everything.
        created_at: Seconds since the epoch.
        revoked: Whether the key was taken back for good.
        secrets: The texts that are taken for this key; two while it is being rotated.
    """

    key_id: str = Field(pattern=f"^{KEY_ID.pattern}$")
    name: str = Field(min_length=1, max_length=100)
    scopes: tuple[Scope, ...]
    created_at: float
    revoked: bool = False
    secrets: tuple[Secret, ...]

    @property
    def expires_at(self) -> float | None:
        """Second since the epoch from which no text of the key is taken any more; None: never."""
        ends = [one.expires_at for one in self.secrets]
        known = [end for end in ends if end is not None]
        return max(known, default=0.0) if len(known) == len(ends) else None

    def valid(self, now: float) -> bool:
        """Whether the key opens anything at a second since the epoch."""
        return not self.revoked and (self.expires_at is None or now < self.expires_at)


def new_key_id() -> str:
    """Make an id; it is no secret."""
    return f"k{secrets.token_hex(6)}"


def new_key_text() -> str:
    """Make the text of a key: a prefix, 256 random bits and a checksum of them, all letters and digits."""
    body = _base62(secrets.randbits(256), _SECRET_DIGITS)
    return f"{KEY_PREFIX}{body}{_checksum(body)}"


def has_key_form(text: str) -> bool:
    """Whether a text may be a key: a misspelt one, or one that is cut short, is found out without a look at any key."""
    found = _FORM.fullmatch(text)
    return found is not None and found.group(2) == _checksum(found.group(1))


def digest_of(text: str) -> str:
    """SHA-256 of a key's text, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def checked_scopes(names: Iterable[str], field: str = "scopes") -> tuple[Scope, ...]:
    """Return scopes without repetition, in the usual order.

    Raises:
        InvalidInputError: One is unknown, or there is none.
    """
    wanted = list(names)
    allowed = f"one or more of {', '.join(SCOPES)}"
    if strange := [name for name in wanted if name not in SCOPES]:
        raise InvalidInputError(field, repr(strange[0])[:80], allowed)
    if not wanted:
        raise InvalidInputError(field, "nothing", allowed)
    return tuple(scope for scope in SCOPES if scope in wanted)


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode("ascii")), _CHECK_DIGITS)


def _base62(number: int, digits: int) -> str:
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, len(_ALPHABET))
        text = _ALPHABET[digit] + text
    return text
