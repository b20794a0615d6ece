"""A presenter's name, for people: one line of visible characters, however it was typed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from kernels.errors import InvalidInputError
from pipeline.avatars.manifest import NAME_LENGTH

_UNSHOWN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069<>]+")
"""Control characters, line breaks, marks that turn the direction of writing, and angle brackets."""


LISTED: Final = 5
"""Presenters of one name that a refusal lists."""


def presenter_named(typed: str, field: str, known: Iterable[tuple[str, str]], hint: str = "") -> str:
    """The id of the presenter that has a name, in any case.

    Args:
        typed: The name.
        field: Where it was typed, for messages.
        known: Id and name of every presenter.
        hint: What follows what is allowed, where no presenter has the name.

    Raises:
        InvalidInputError: No presenter has the name, or several have it; some of their ids are listed.
    """
    found = sorted(one for one, name in known if name.casefold() == typed.strip().casefold() != "")
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInputError(field, repr(typed[:80]), f"the id or the name of a presenter{hint}")
    listed = ", ".join(found[:LISTED]) + (" ..." if len(found) > LISTED else "")
    raise InvalidInputError(
        field, f"{typed[:80]!r}, a name that {len(found)} presenters have", f"one of their ids: {listed}"
    )


def clean_name(text: str) -> str:
    """The name as it is kept: NFC, without what cannot be seen, single spaces, at most 200 characters."""
    clean = _UNSHOWN.sub(" ", unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8")))
    return " ".join(clean.split())[:NAME_LENGTH]
