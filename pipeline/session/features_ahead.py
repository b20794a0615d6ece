"""Features of a file's next hops, asked for before their turn comes: what a hop waits for is then the stage, not the way to it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kernels.arrays import F32
from pipeline.session.spoken_motion import window_of
from pipeline.stages import Stages
from pipeline.types import ROWS_PER_FRAME, FeatureRows


class HeardSamples(Protocol):
    """Samples by their position."""

    @property
    def end(self) -> int:
        """Position after the last sample that came."""
        ...

    def read(self, start: int, length: int) -> F32:
        """A private copy of samples start .. start + length."""
        ...


class FeaturesAhead:
    """Feature calls of one session that are under way.

    Args:
        stages: The stage calls.
        samples: What is heard.
    """

    def __init__(self, stages: Stages, samples: HeardSamples) -> None:
        self._stages = stages
        self._samples = samples
        self._asked: dict[int, asyncio.Task[FeatureRows]] = {}

    def ask(self, first_frame: int, count: int) -> bool:
        """Ask for the features of a hop, unless that was done; False where its window is not heard to its end yet."""
        start, length = window_of(self._stages.info, first_frame, count)
        if start + length > self._samples.end:
            return False
        row = first_frame * ROWS_PER_FRAME
        if row not in self._asked:
            window = self._samples.read(start, length)
            self._asked[row] = asyncio.ensure_future(self._stages.audio_features(window, row))
        return True

    async def rows(self, window: F32, first_row: int) -> FeatureRows:
        """Features of a window: those that were asked for, or asked for now."""
        asked = self._asked.pop(first_row, None)
        return await (self._stages.audio_features(window, first_row) if asked is None else asked)

    async def close(self) -> None:
        """Give up what nobody waits for any more."""
        given_up = list(self._asked.values())
        self._asked.clear()
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
