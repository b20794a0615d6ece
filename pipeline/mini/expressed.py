"""Expressions of `mini`: looks become offsets of the control points and of the head, laid over motion that was made without them.

The motion model never sees them: what it is conditioned on is its own motion. The lips keep what they say: mouth parts of an
expression give way while the mouth is open or rounded, and nothing of it changes the gap between the lips.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from engines.mini.control_points import INDEX
from engines.mini.expression import GAZE_REACH, LIDS_FOLLOW, PRESETS, offsets_of
from engines.mini.motion_space import rest_motion
from engines.mini.rig import X, Y
from engines.motion_layout import EXP, LOGIT_SIGMA_DEG, PITCH, TRANSLATION, bin_centres_deg
from kernels.arrays import F32
from pipeline.expression.looks import ATTEND, ENERGY, EXPRESSIONS, GAZE, LIDS, NOD, RAISE

_MOUTH: Final = ("smile", "wide", "frown", "smile_left", "lips_raise")
"""Movements that give way to speech."""
_GIVES_WAY: Final = 0.4
"""Share of the mouth's part of an expression that an open or rounded mouth takes away."""
_OPEN_GAP: Final = 0.22
"""Gap between the lips, in mouth widths, at which a mouth counts as wholly open."""
_ROUNDED: Final = 0.10
"""Way of the corners towards each other, in mouth widths, at which it counts as wholly rounded."""
_SHUT: Final = 0.90
"""Way of the upper lid in a whole blink, in eye openings."""


@cache
def _preset_parts() -> tuple[F32, F32, F32, F32]:
    """Per expression: offsets of the mouth and of the rest (e, 63), share of a blink (e,), pitch in degrees (e,)."""
    mouth, rest = (np.zeros((len(EXPRESSIONS), EXP.stop - EXP.start), np.float32) for _ in range(2))
    lids, pitch = (np.zeros(len(EXPRESSIONS), np.float32) for _ in range(2))
    for row, name in enumerate(EXPRESSIONS):
        for part, value in PRESETS[name].items():
            if part == "lids":
                lids[row] = value
            elif part == "pitch":
                pitch[row] = value
            else:
                (mouth if part in _MOUTH else rest)[row] += value * offsets_of(part).ravel()
    return mouth, rest, lids, pitch


def express(motion: F32, values: F32) -> F32:
    """Lay looks over motion.

    Args:
        motion: float32 (n, 265), as speech and idleness make it.
        values: float32 (n, `CHANNELS`), from `Looks.values` for the same frames.

    Returns:
        float32 (n, 265). Frame by frame: how frames are cut into calls changes nothing.
    """
    shown = motion.copy()
    head = slice(0, TRANSLATION.stop)
    rest = rest_motion().numpy()[head]
    shown[:, head] = rest + (1.0 + values[:, ENERGY, None]) * (motion[:, head] - rest)
    exp = motion[:, EXP].reshape(len(motion), -1, 3)
    mouth, face, lids, pitch = _preset_parts()
    speaks = _GIVES_WAY * _speaking(exp)
    offsets = np.zeros((len(motion), EXP.stop - EXP.start), np.float32)
    shut = np.zeros(len(motion), np.float32)
    for row in range(len(EXPRESSIONS)):  # sums in a fixed order: a matrix product rounds differently for another n
        strength = values[:, row]
        offsets += strength[:, None] * ((1.0 - speaks)[:, None] * mouth[row] + face[row])
        shut += strength * lids[row]
        shown[:, PITCH] += (strength * pitch[row])[:, None] * _per_degree()
    shown[:, PITCH] += ((1.0 + values[:, ENERGY]) * values[:, NOD])[:, None] * _per_degree()
    offsets += values[:, RAISE, None] * offsets_of("brow_raise").ravel()
    for point in ("gaze_right", "gaze_left"):  # what these two show is the gaze alone
        column = 3 * INDEX[point]
        offsets[:, column : column + 2] -= values[:, ATTEND, None] * exp[:, INDEX[point], :2]
    for number, name in enumerate(GAZE_REACH):
        offsets += (GAZE_REACH[name] * values[:, GAZE.start + number])[:, None] * offsets_of(name).ravel()
    down = values[:, GAZE.start + 1]
    shut += LIDS_FOLLOW * np.where(down > 0, down, 0.5 * down)
    for side in ("right", "left"):
        open_share = np.clip(
            1.0 - exp[:, INDEX[f"lid_upper_{side}"], Y] / _SHUT, 0.0, 1.0
        )  # a blink closes the eye wholly
        blink = values[:, LIDS]
        closing = open_share * (blink + shut * (1.0 - blink))
        offsets += closing[:, None] * offsets_of(f"blink_{side}").ravel()
    shown[:, EXP] += offsets
    return shown


@cache
def _per_degree() -> F32:
    """What one degree adds to the logits of an angle, float32 (66,)."""
    slope: F32 = (bin_centres_deg() / LOGIT_SIGMA_DEG**2).numpy()
    return slope


def _speaking(exp: F32) -> F32:
    """How far the mouth is open or rounded, 0..1, float32 (n,)."""
    gap = exp[:, INDEX["lip_lower_mid"], Y] - exp[:, INDEX["lip_upper_mid"], Y]
    inwards = (exp[:, INDEX["mouth_corner_right"], X] - exp[:, INDEX["mouth_corner_left"], X]) / 2
    result: F32 = np.clip(np.maximum(gap / _OPEN_GAP, inwards / _ROUNDED), 0.0, 1.0)
    return result
