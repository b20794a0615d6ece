"""A presenter's name, for people: one line of visible characters, however it was typed."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pipeline.avatars.manifest import NAME_LENGTH

_UNSHOWN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069<>]+")
"""Control characters, line breaks, marks that turn the direction of writing, and angle brackets."""


def clean_name(text: str) -> str:
    """The name as it is kept: NFC, without what cannot be seen, single spaces, at most 200 characters."""
    clean = _UNSHOWN.sub(" ", unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8")))
    return " ".join(clean.split())[:NAME_LENGTH]
