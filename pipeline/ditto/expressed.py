"""Expressions of Ditto: looks become offsets of keypoints, laid over the offsets that speech makes.

The offsets are those with which LivePortrait's sliders move its keypoints (facts: their constants and ranges); Ditto's decoder was
trained on the same keypoints. Motion is offsets here, so the head's own movement is what is scaled by energy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np

from engines.motion_layout import EXP, PITCH, TRANSLATION
from kernels.arrays import F32
from pipeline.expression.looks import ENERGY, EXPRESSIONS, GAZE, NOD, RAISE

X, Y, Z = 0, 1, 2

_SLIDERS: Final[Mapping[str, Mapping[tuple[int, int], float]]] = {
    "smile": {
        (20, Y): -0.010, (14, Y): -0.020, (17, Y): 0.0065, (17, Z): 0.003, (13, Y): -0.00275, (16, Y): -0.00275,
        (3, Y): -0.0035, (7, Y): -0.0035,
    },
    "brows_up": {(1, Y): 0.001, (2, Y): -0.001},
    "brows_in": {(1, X): 0.001, (2, X): -0.001, (1, Y): -0.0003, (2, Y): 0.0003},
}  # fmt: skip
"""Slider -> (keypoint, axis) -> offset per unit."""
_PRESETS: Final[Mapping[str, Mapping[str, float]]] = {
    "happy": {"smile": 1.0, "brows_up": 4.0},
    "sad": {"smile": -0.3, "brows_up": 10.0},
    "angry": {"brows_in": 25.0},
    "surprised": {"brows_up": 27.0},
    "fear": {"brows_up": 18.0, "brows_in": 6.0},
    "disgust": {"brows_in": 12.0, "smile": -0.15},
    "contempt": {"smile": 0.35},
    "serious": {"brows_in": 9.0},
}
"""Expression -> values of sliders at strength 1, inside the sliders' ranges."""
_RAISE_UNITS: Final = 27.0
"""Slider units of a whole brow raise, as in `surprised`."""
_EYES: Final = (11, 15)
_GAZE_UNITS: Final = 20.0
"""Slider units of a gaze of 1; the slider goes to 30."""
_TOWARDS: Final = 0.001
_AWAY: Final = 0.0007
"""Offset per unit: the eye on the side that is looked at turns less."""


@cache
def _preset_offsets() -> F32:
    offsets = np.zeros((len(EXPRESSIONS), 21, 3), np.float32)
    for row, name in enumerate(EXPRESSIONS):
        for slider, value in _PRESETS[name].items():
            for (point, axis), per_unit in _SLIDERS[slider].items():
                offsets[row, point, axis] += value * per_unit
    return offsets.reshape(len(EXPRESSIONS), -1)


@cache
def _raised_brows() -> F32:
    offsets = np.zeros((21, 3), np.float32)
    for (point, axis), per_unit in _SLIDERS["brows_up"].items():
        offsets[point, axis] = _RAISE_UNITS * per_unit
    return offsets.ravel()


def express(motion: F32, values: F32, pitch_slope: F32 | None = None) -> F32:
    """Lay looks over motion, frame by frame.

    Args:
        motion: float32 (n, 265), offsets from the source's motion.
        values: float32 (n, `CHANNELS`), from `Looks.values` for the same frames. The lids blink by themselves.
        pitch_slope: float32 (66,), what a nod of one degree adds to the logits of the pitch; None for a head that does not nod.
    """
    shown = motion.copy()
    shown[:, : TRANSLATION.stop] *= 1.0 + values[:, ENERGY, None]
    if pitch_slope is not None:
        shown[:, PITCH] += ((1.0 + values[:, ENERGY]) * values[:, NOD])[:, None] * pitch_slope
    shown[:, EXP] += values[:, RAISE, None] * _raised_brows()
    for row, offsets in enumerate(_preset_offsets()):  # in a fixed order, whatever n is
        shown[:, EXP] += values[:, row, None] * offsets
    x, y = values[:, GAZE.start] * _GAZE_UNITS, values[:, GAZE.start + 1] * _GAZE_UNITS
    exp = shown[:, EXP].reshape(len(shown), 21, 3)
    for point, right, left in ((_EYES[0], _AWAY, _TOWARDS), (_EYES[1], _TOWARDS, _AWAY)):
        exp[:, point, X] += np.where(x > 0, right, left) * x
        exp[:, point, Y] += 0.001 * y
    shown[:, EXP] = exp.reshape(len(shown), -1)
    return shown
