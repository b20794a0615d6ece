"""When the canned blink of the Ditto family plays (ditto.md section 7, step 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.session.blink_cue import hashed_uniform

BLINK_FRAMES = 15
OPEN_FRAMES_RANGE = (60, 100)
FIRST_RANDOM_BLINK = 35
_JITTER = (OPEN_FRAMES_RANGE[1] - OPEN_FRAMES_RANGE[0]) // 2
_MEAN_PERIOD = sum(OPEN_FRAMES_RANGE) // 2 + BLINK_FRAMES
_STREAM = 300


def blink_indices(seed: int, first_frame: int, frames: int, open_frames: int | Sequence[int] = 0) -> list[int]:
    """Index into the 15-frame blink for frames of a live session: a function of (seed, frame index) alone.

    Unlike the reference's schedule it needs no list, so any replica answers for any stretch. Random gaps are 60 to 100 frames, as
    there; the first blink comes after 35 to 55 frames, not after 60 to 100, so that short speech blinks too.

    Args:
        seed: The session's seed.
        first_frame: Index of the first frame; frames before 0 have open eyes.
        frames: How many.
        open_frames: Frames between blinks: -1 none, 0 random, an int, or a sequence that is cycled.
    """
    indices = first_frame + np.arange(frames, dtype=np.int64)
    if isinstance(open_frames, int) and open_frames == -1:
        return [0] * frames
    if open_frames == 0:
        slots = np.floor_divide(indices - FIRST_RANDOM_BLINK, _MEAN_PERIOD)
        jitter = np.floor(hashed_uniform(seed, _STREAM, slots) * (_JITTER + 1)).astype(np.int64)
        ages = indices - FIRST_RANDOM_BLINK - slots * _MEAN_PERIOD - jitter
    else:
        gaps = (open_frames,) if isinstance(open_frames, int) else tuple(open_frames)
        starts = np.cumsum([gap + BLINK_FRAMES for gap in gaps]) - BLINK_FRAMES
        turn = np.mod(indices, starts[-1] + BLINK_FRAMES)
        before = np.maximum(np.searchsorted(starts, turn, side="right") - 1, 0)
        ages = turn - starts[before]
    inside = (ages >= 0) & (ages < BLINK_FRAMES) & (indices >= 0)
    return [int(age) for age in np.where(inside, ages, 0)]
