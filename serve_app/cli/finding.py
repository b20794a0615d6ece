"""A line of what `liveanchor doctor` found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "optional", "missing"]


@dataclass(frozen=True)
class Finding:
    """A line of the diagnosis.

    Attributes:
        name: What was looked at.
        level: `ok`, `optional` (works without it, less is possible), or `missing` (something a user will want fails).
        found: What is here.
        advice: What to do about it; empty when all is well.
    """

    name: str
    level: Level
    found: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        """As plain values."""
        return asdict(self)
