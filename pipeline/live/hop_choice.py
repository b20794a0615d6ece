"""How many new frames a motion window of the next utterance makes: few while there is room, more while stages are crowded."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.stages import StageInfo


class HopChoice:
    """Chooses between a family's short and long hops.

    A longer hop asks the speech encoder and the motion model less often for the same pictures, and lets a microphone wait for
    its lips by as much longer.

    Args:
        info: What the family allows.
        wanted: Frames of the short hop; the family's own where it does not allow so many.
        crowded: Whether the stages have so much to do that sessions should ask them less often.

    Attributes:
        short: Frames per window while there is room.
        long: Frames per window while stages are crowded; the same as `short` where the family allows no more.
    """

    def __init__(self, info: StageInfo, wanted: int, crowded: Callable[[], bool]) -> None:
        self.short = wanted if wanted in info.hop_choices else info.hop_frames
        self.long = info.longest_hop_frames
        self._crowded = crowded

    def now(self) -> int:
        """Frames per window of an utterance that begins now."""
        return self.long if self._crowded() else self.short
