"""Ids that say themselves to whom they belong, so that no process has to remember it.

An owned id is another id, which cannot be guessed, with 16 digits behind it that are a function of that id and its owner. It gives
no access: a caller is first told apart by its key, and then asked whether the id is its own.
"""

from __future__ import annotations

import hashlib
from typing import Final

from serve_app.access.caller import NOBODY, Caller

MARK_DIGITS: Final = 16


def owned_id(plain: str, owner: str) -> str:
    """Make an id that belongs to an owner; the id itself where it belongs to nobody."""
    return plain if owner == NOBODY else plain + _mark(plain, owner)


def plain_id(owned: str, caller: Caller, digits: int) -> str | None:
    """Return the id inside of one that a caller may see; None where it is another owner's.

    Args:
        owned: The id that came.
        caller: Who asks.
        digits: Number of characters of a plain id.
    """
    if not is_own(owned, caller):
        return None
    return owned[:digits] if len(owned) == digits + MARK_DIGITS else owned


def is_own(owned: str, caller: Caller) -> bool:
    """Whether a caller may see what has this id."""
    return caller.admin or belongs_to(owned, caller.owner)


def belongs_to(owned: str, owner: str) -> bool:
    """Whether an id belongs to an owner."""
    return owner != NOBODY and owned[-MARK_DIGITS:] == _mark(owned[:-MARK_DIGITS], owner)


def _mark(plain: str, owner: str) -> str:
    return hashlib.sha256(f"{plain}:{owner}".encode("utf-8", "surrogateescape")).hexdigest()[:MARK_DIGITS]
