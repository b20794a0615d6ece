"""Counts the late pictures of a host's live sessions between two looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class LatePictures:
    """Remembers what each session said last. A session's pictures after its last look are not counted."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def since_last(self, sessions: Iterable[Mapping[str, Any]]) -> int:
        """Number of pictures that were due and had not come since the call before.

        Args:
            sessions: Statistics of all sessions of this host; `session_id` and `frames_repeated` are looked at.
        """
        now = {str(one["session_id"]): int(one["frames_repeated"]) for one in sessions}
        late = sum(max(0, count - self._seen.get(name, 0)) for name, count in now.items())
        self._seen = now
        return late
