"""Ids that say themselves to whom they belong (`pipeline.marked_ids`), so that no process has to remember it.

They give no access: a caller is first told apart by its key, and then asked whether the id is its own.
"""

from __future__ import annotations

from pipeline.marked_ids import bears, marked
from serve_app.access.caller import NOBODY, Caller


def owned_id(plain: str, owner: str) -> str:
    """Make an id that belongs to an owner; the id itself where it belongs to nobody."""
    return plain if owner == NOBODY else marked(plain, owner)


def is_own(owned: str, caller: Caller) -> bool:
    """Whether a caller may see what has this id."""
    return caller.admin or belongs_to(owned, caller.owner)


def belongs_to(owned: str, owner: str) -> bool:
    """Whether an id belongs to an owner."""
    return owner != NOBODY and bears(owned, owner)
