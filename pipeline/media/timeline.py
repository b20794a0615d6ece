"""Where decoded sound belongs in time, by the timestamps of its container.

A pause that a recorder left out (a muted microphone, packets that were lost, discontinuous transmission) is a hole in the
timestamps, not in the samples; without it everything after it comes too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final

TIMED_CONTAINERS: Final = frozenset(
    {"matroska", "webm", "mov", "mp4", "mpegts", "mpeg", "flv", "live_flv", "asf", "nut", "ogg"}
)
"""FFmpeg's names of containers that carry times; the others count samples or bytes, which says nothing of pauses."""
TOLERANCE_S: Final = 0.04
"""The length of one picture at 25 frames/s: sound that is off by no more stays where it is."""
RESTART_S: Final = 10.0
"""A step back by more than this is a clock that was set anew, not sound that came twice."""


@dataclass(frozen=True)
class Placed:
    """What to do with the next block.

    Attributes:
        silence_s: Silence that goes in front of it.
        cut_s: How much of its beginning has been heard already.
    """

    silence_s: float
    cut_s: float


class Timeline:
    """Places blocks of sound one after the other.

    * A hole of more than 40 ms becomes silence of its length, a shorter one is closed.
    * An overlap of more than 40 ms is cut from the later block.
    * A clock that starts anew (at or before the first timestamp, or more than 10 s back) goes on where the sound stands.
    * A block without a timestamp, or with one that is no number, follows the one before it.

    Args:
        start_s: The time at which the clip begins; None: with its first block.
    """

    def __init__(self, start_s: float | None = None) -> None:
        self._zero = start_s
        self._first: float | None = None
        self._position = 0.0

    @property
    def position_s(self) -> float:
        """Where the sound ends that has been placed, in seconds since the start of the clip."""
        return self._position

    def place(self, time_s: float | None, seconds: float) -> Placed:
        """Find the place of the next block.

        Args:
            time_s: Its timestamp in seconds, on the container's clock.
            seconds: Its length, >= 0.

        Returns:
            The silence in front of it and what to cut; one of them is 0.
        """
        gap = self._gap(time_s)
        cut = min(-gap, seconds) if gap < -TOLERANCE_S else 0.0
        silence = gap if gap > TOLERANCE_S else 0.0
        self._position += silence + seconds - cut
        return Placed(silence, cut)

    def _gap(self, time_s: float | None) -> float:
        """Seconds between the end of the sound and the block; negative where they overlap."""
        if time_s is None or not isfinite(time_s):
            return 0.0
        if self._first is None:
            self._first = time_s
            zero = self._zero if self._zero is not None and self._zero <= time_s else time_s - self._position
            self._zero = zero
        assert self._zero is not None  # noqa: S101 - set together with the first timestamp
        gap = time_s - self._zero - self._position
        if gap < -TOLERANCE_S and (time_s <= self._first or gap < -RESTART_S):
            self._first, self._zero, gap = time_s, time_s - self._position, 0.0
        return gap
