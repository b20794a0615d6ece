"""Which stretch of idle motion becomes an avatar's loop: played to and fro, it must blink often enough and turn gently."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.motion_layout import EXP, PITCH, ROLL, TRANSLATION
from kernels.arrays import F32
from pipeline.session.behaviour import MotionBehaviour
from pipeline.types import MOTION_FPS

LONGEST_GAP: Final = 3 * MOTION_FPS
"""Largest number of frames between two blinks that a loop should have."""
_SEARCHED: Final = 3000
_POSE: Final = (*range(PITCH.start, ROLL.stop), *range(TRANSLATION.start, TRANSLATION.stop))
_BLINKING: Final = 0.5


def mirrored(step: int, count: int, per_frame: int = 1, *, ends_twice: bool = True) -> int:
    """Place of a step in `count` frames played to and fro: 0 1 2 2 1 0 0 1 ... for 3, or 0 1 2 1 0 1 ... with each end shown once.

    Args:
        step: Any integer; steps are counted in pictures.
        count: Number of frames.
        per_frame: Pictures per frame; places then run from 0 to `per_frame * (count - 1)` and include places between frames.
        ends_twice: Whether the end frames are shown twice where the way turns.
    """
    if not ends_twice:
        last = per_frame * (count - 1)
        turn = step % max(2 * last, 1)
        return min(turn, 2 * last - turn)
    turn = step % (2 * per_frame * count)
    return max(min(turn, per_frame * (2 * count - 1) - turn, per_frame * (count - 1)), 0)


def blinking(motion: F32) -> NDArray[np.bool_]:
    """Flag (n,) frames whose expression is far from the usual one, as a blink is in a silent face; none where nothing moves."""
    expression = motion[:, EXP]
    away = np.abs(expression - np.median(expression, axis=0)).max(axis=1)
    most = float(away.max()) if len(away) else 0.0
    return away > _BLINKING * most if most > 1e-6 else np.zeros(len(motion), np.bool_)


def longest_gap(blinks: NDArray[np.bool_]) -> int:
    """Longest run of frames without a blink, when (n,) frames are played to and fro; `2 * n` where none blinks."""
    shut = np.flatnonzero(blinks)
    if not len(shut):
        return 2 * len(blinks)
    inner = int(np.diff(shut).max(initial=1)) - 1
    return max(2 * int(shut[0]), inner, 2 * (len(blinks) - 1 - int(shut[-1])))


def choose_loop(behaviour: MotionBehaviour, seed: int, frames: int) -> F32:
    """Motion of a loop, float32 (frames, 265); a template video's loop is the video itself, whatever `frames` says.

    The stretch is chosen from two minutes of idle motion. It blinks within `LONGEST_GAP` and not while it turns round, or, where
    no stretch does, most often; among equals it is the one that turns most gently.
    """
    if behaviour.template_frames:
        return behaviour.idle(seed, 0, behaviour.template_frames)
    motion = behaviour.idle(seed, 0, _SEARCHED)
    speed = np.zeros(len(motion))
    speed[1:] = np.abs(np.diff(motion[:, _POSE], axis=0)).max(axis=1)
    gaze = np.zeros(len(motion))
    gaze[1:] = np.abs(np.diff(motion[:, EXP], axis=0)).max(axis=1)
    scale = (float(speed.max()) or 1.0, float(gaze.max()) or 1.0)
    blinks = blinking(motion)
    best, best_score = 0, (np.inf, np.inf)
    for start in range(1, len(motion) - frames, 5):
        stop = start + frames
        turning = blinks[max(start - 2, 0) : start + 3].any() or blinks[stop - 3 : stop + 2].any()
        gap = longest_gap(blinks[start:stop])
        jerk = sum(speed[i] / scale[0] + gaze[i] / scale[1] for i in (start, start + 1, stop - 1, stop))
        score = (float(max(gap, LONGEST_GAP)) + (1000.0 if turning else 0.0), float(jerk))
        if score < best_score:
            best, best_score = start, score
    return motion[best : best + frames].copy()
