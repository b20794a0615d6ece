"""Ids that bear marks of what they belong to, so that no process and no table has to remember it.

A marked id is another id, which cannot be guessed, with 16 digits behind it that are a function of that id and of a word: the name
of an owner, the id of an avatar. Whoever knows the word can tell whether the id bears its mark; the mark does not tell the word.
"""

from __future__ import annotations

import hashlib
from typing import Final

MARK_DIGITS: Final = 16


def marked(plain: str, word: str) -> str:
    """Return an id with the mark of a word behind it."""
    return plain + _mark(plain, word)


def bears(whole: str, word: str) -> bool:
    """Whether the last mark of an id is that of a word."""
    return whole[-MARK_DIGITS:] == _mark(whole[:-MARK_DIGITS], word)


def _mark(plain: str, word: str) -> str:
    return hashlib.sha256(f"{plain}:{word}".encode("utf-8", "surrogateescape")).hexdigest()[:MARK_DIGITS]
