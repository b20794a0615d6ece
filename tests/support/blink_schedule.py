"""The canned blink's schedule as the reference makes it (ditto.md section 7, step 5): what `blink_indices` is compared with."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import cycle

from pipeline.ditto.blink_schedule import BLINK_FRAMES, OPEN_FRAMES_RANGE

DEFAULT_LENGTH = 3000


def blink_schedule(frames: int, open_frames: int | Sequence[int], rng: random.Random) -> list[int]:
    """Index into the 15-frame blink for every frame; 0 = open.

    Args:
        frames: Length of the clip; -1 = unknown, a schedule of 3000 frames is made and repeated.
        open_frames: Frames between blinks: -1 none, 0 random 60..100, an int, or a sequence that is cycled.
        rng: Source of the random gaps.

    Returns:
        List of `frames` numbers 0..14.
    """
    length = DEFAULT_LENGTH if frames == -1 else frames
    schedule = [0] * length
    if open_frames == -1:
        return schedule
    gaps = _gaps(open_frames, rng)
    position = next(gaps)
    last_gap = next(gaps) if isinstance(open_frames, int) else open_frames[-1]
    end = length - max(last_gap, BLINK_FRAMES)
    while position <= end:
        schedule[position : position + BLINK_FRAMES] = range(BLINK_FRAMES)
        position += BLINK_FRAMES + next(gaps)
    return schedule


def _gaps(open_frames: int | Sequence[int], rng: random.Random) -> Iterator[int]:
    """Endless gaps between blinks."""
    if isinstance(open_frames, int):
        while True:
            yield open_frames or rng.randint(*OPEN_FRAMES_RANGE)
    yield from cycle(open_frames)
