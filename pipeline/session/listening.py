"""How a silent face listens: it looks at who speaks, its brows rise a little, it nods where a phrase ends and blinks there.

A function of the voice of the other side, of the face's own voice and of (seed, frame index), without state. What it does at a
frame depends on the other side's samples of `LATER` frames before it at the latest, so that pictures can be drawn before they are
shown and still follow from samples that are here: a nod begins 0.6 s after its phrase has ended, as people's do.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, F64, I64
from pipeline.expression.looks import ATTEND, CHANNELS, LIDS, NOD, RAISE
from pipeline.session.blink_cue import hashed_uniform, lid_closure
from pipeline.session.gestures import (
    LEAST_RMS,
    MEAN_FRAMES,
    PAUSE_FRAMES,
    Voice,
    ends_phrase,
    levels_of,
    nod_curve,
    stress_at,
)
from pipeline.types import MOTION_FPS

LATER: Final = 9
"""Frames by which a face follows what it hears: as far as idle pictures are made ahead, less the lead of the voice."""
HOLD_FRAMES: Final = 50
"""Frames that attention outlasts the voice: who pauses is not done yet."""
RISE_FRAMES: Final = 12
"""Frames in which attention comes, and goes."""
LOUD_FRAMES: Final = 4
"""Frames of voice, of five, that are speech and no click."""
OWN_HOLD_FRAMES: Final = 12
OWN_AHEAD: Final = 3
"""Frames before the face's own voice in which its attention begins to go."""
BROWS: Final = 0.14
"""Share of a brow raise with which a face listens."""
NOD_DEG: Final = (2.0, 3.4)
"""Least and largest nod at the end of a phrase, degrees."""
NOD_SHARE: Final = 0.85
"""Share of phrase ends that are nodded at; which ones, the seed says."""
TWICE_SHARE: Final = 0.35
AGAIN_FRAMES, AGAIN = 13, 0.55
"""Frames after which a second nod follows a first one, and its share of that one's depth."""
SMALL_SHARE, SMALL_DEG = 0.3, 1.3
"""Share of stressed syllables that get a small nod, and its depth in degrees."""
BLINKS_TWICE: Final = 0.4
_BEFORE: Final = MEAN_FRAMES + HOLD_FRAMES
_SINCE_STRESS: Final = LATER + 2
_SINCE_PAUSE: Final = LATER + PAUSE_FRAMES - 1


def listening(other: Voice, own: Voice, seed: int, first_frame: int, count: int) -> F32:
    """What a listening face does in consecutive frames.

    Args:
        other: Who speaks to it.
        own: What it says itself; it does not listen while it speaks.
        seed: Session seed.
        first_frame: Index of the first frame; frames before 0 are silent.
        count: Number of frames.

    Returns:
        float32 (count, `CHANNELS`): `ATTEND`, `NOD` in degrees, `RAISE` as a share of a brow raise, `LIDS` as a blink's closure;
        other channels are 0. From one frame to the next `ATTEND` changes by at most 0.14.
    """
    values = np.zeros((count, CHANNELS), np.float32)
    start = first_frame - LATER - _BEFORE
    levels = levels_of(other, start, _BEFORE + count)
    if levels.max(initial=0.0) < LEAST_RMS:
        return values
    share = _attention(levels, count) * (1.0 - _speaks(own, first_frame, count))
    if not share.any():
        return values
    frames = first_frame + np.arange(count, dtype=np.int64)
    nods, lids = np.zeros(count), np.zeros(count)
    for place in range(MEAN_FRAMES, len(levels) - 1):
        at = start + place
        if (size := stress_at(levels, place)) and _draw(seed, 430, at) < SMALL_SHARE:
            nods = np.maximum(nods, SMALL_DEG * size * nod_curve(_ages(frames, at + _SINCE_STRESS)))
        if not ends_phrase(levels, place):
            continue
        begins = at + _SINCE_PAUSE
        if _draw(seed, 431, at) < NOD_SHARE:
            least, most = NOD_DEG
            deep = least + (most - least) * _draw(seed, 432, at)
            nods = np.maximum(nods, deep * nod_curve(_ages(frames, begins)))
            if _draw(seed, 433, at) < TWICE_SHARE:
                nods = np.maximum(nods, AGAIN * deep * nod_curve(_ages(frames, begins + AGAIN_FRAMES)))
        lids = np.maximum(lids, lid_closure(_ages(frames, begins + 2)))
        if _draw(seed, 434, at) < BLINKS_TWICE:
            lids = np.maximum(lids, lid_closure(_ages(frames, begins + 2 + AGAIN_FRAMES)))
    values[:, ATTEND] = share
    values[:, RAISE] = BROWS * share
    values[:, NOD] = nods * share
    values[:, LIDS] = lids * share
    return values


def smooth_rise(ages: F64) -> F64:
    """From 0 at age 0 to 1 at `RISE_FRAMES`, a raised cosine; ages in frames."""
    rise: F64 = 0.5 - 0.5 * np.cos(np.pi * np.clip(ages / RISE_FRAMES, 0.0, 1.0))
    return rise


def _attention(levels: F64, count: int) -> F64:
    """How far the face attends to the voice, 0..1: whether it spoke in the last `HOLD_FRAMES`, smoothed over `RISE_FRAMES`."""
    loud = np.convolve(levels >= LEAST_RMS, np.ones(5), "full")[: len(levels)] >= LOUD_FRAMES
    return _smooth(_lasting(loud, HOLD_FRAMES), count)


def _speaks(own: Voice, first_frame: int, count: int) -> F64:
    """How far the face speaks itself, 0..1."""
    before = OWN_HOLD_FRAMES + RISE_FRAMES + OWN_AHEAD
    levels = levels_of(own, first_frame - before + OWN_AHEAD, before + count)
    return _smooth(_lasting(levels >= LEAST_RMS, OWN_HOLD_FRAMES), count)


def _lasting(flags: NDArray[np.bool_], frames: int) -> F64:
    """Whether any of the last so many flags is set."""
    lasts: F64 = (np.convolve(flags, np.ones(frames), "full")[: len(flags)] > 0.5).astype(np.float64)
    return lasts


def _smooth(flags: F64, count: int) -> F64:
    weights = np.diff(smooth_rise(np.arange(RISE_FRAMES + 1, dtype=np.float64)))
    mean: F64 = np.convolve(flags, weights, "full")[: len(flags)][-count:]
    return np.where(mean > 1e-9, mean, 0.0)


def _ages(frames: I64, first: int) -> F64:
    ages: F64 = (frames - first) / MOTION_FPS
    return ages


def _draw(seed: int, stream: int, frame: int) -> float:
    return float(hashed_uniform(seed, stream, np.array(frame)))
