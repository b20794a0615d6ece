"""When a face blinks: a function of (seed, frame index), without state, so that any replica gives the same answer for any stretch.

Time is cut into slots of 3.75 s. Every slot holds one blink at a random place inside its first 1.75 s, so intervals are 2 to 5.5 s;
the first blink of a session comes after 1.2 to 2.6 s. One blink in nine is followed by a second one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32, F64, I64
from pipeline.types import MOTION_FPS

SLOT_S: Final = 3.75
JITTER_S: Final = 1.75
ORIGIN_S: Final = 1.0
FIRST_S: Final = (1.2, 2.6)
DOUBLE_SHARE: Final = 0.11
CLOSING_S: Final = 0.10
CLOSED_S: Final = 0.04
"""The lids stay shut for one frame period, so that every blink shows a fully closed eye."""
OPENING_S: Final = 0.21

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


def hashed_uniform(seed: int, stream: int, counter: I64) -> F64:
    """Numbers in [0, 1) that depend on (seed, stream, counter) alone: SplitMix64 of the three, counter-based.

    Args:
        seed: Any integer.
        stream: Tells independent uses apart.
        counter: int64, any shape, negative allowed.
    """
    mask = (1 << 64) - 1
    key = np.uint64((seed * 0xD1342543DE82EF95 + stream * 0x2545F4914F6CDD1D + 0x632BE59BD9B4E019) & mask)
    with np.errstate(over="ignore"):
        z = (np.asarray(counter, np.int64).astype(np.uint64) + np.uint64(1)) * _GOLDEN ^ key
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        z = z ^ (z >> np.uint64(31))
    return np.asarray((z >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _starts(seed: int, slots: I64) -> F64:
    """Second at which the (first) blink of every slot starts to close."""
    place = hashed_uniform(seed, 1, slots)
    first = FIRST_S[0] + (FIRST_S[1] - FIRST_S[0]) * place
    return np.where(slots == 0, first, ORIGIN_S + slots * SLOT_S + JITTER_S * place)


def lid_closure(age_s: F64) -> F64:
    """Closure 0..1 of a lid, `age_s` seconds after a blink started: fast down, one frame shut, slower up."""
    down = np.clip(age_s / CLOSING_S, 0.0, 1.0)
    up = np.clip((age_s - CLOSING_S - CLOSED_S) / OPENING_S, 0.0, 1.0)
    rise = up * up * (3.0 - 2.0 * up)
    return np.asarray(down * down * (3.0 - 2.0 * down) * (1.0 - rise))


def blink_cue(seed: int, first_frame: int, n_frames: int) -> F32:
    """How far the lids are closed by blinking.

    Args:
        seed: Seed of the session; every session seed has blinks of its own.
        first_frame: Index of the first frame at 25 frames/s; may be negative (the history before a session starts).
        n_frames: Number of frames wanted.

    Returns:
        float32 (n_frames,), 0 open, 1 shut; 0 between blinks. A blink takes 8 to 9 frames, and at least one of them is 1.
    """
    times = (first_frame + np.arange(n_frames, dtype=np.int64)) / MOTION_FPS
    slots = np.floor((times - ORIGIN_S) / SLOT_S).astype(np.int64)
    cue = np.zeros(n_frames)
    for neighbour in (-1, 0):  # no blink, double ones included, reaches beyond the slot after its own
        slot = slots + neighbour
        age = times - _starts(seed, slot)
        again = np.where(
            hashed_uniform(seed, 2, slot) < DOUBLE_SHARE, 0.38 + 0.12 * hashed_uniform(seed, 3, slot), np.inf
        )
        cue = np.maximum(cue, np.maximum(lid_closure(age), lid_closure(age - again)))
    return cue.astype(np.float32)
