"""What expressions do to a face: movements of its control points beyond those of speech, and presets of the named expressions.

The movements of speech and rest are the actions of `engines.mini.rig`, which the motion model's weights are made for; those here
are laid over its motion afterwards. Units are the control points'; effect sizes on pictures are measured by
`python -m benchmarks.picture`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from engines.mini.control_points import INDEX
from engines.mini.rig import ACTIONS, X, Y, action_basis
from kernels.arrays import F32

MOVEMENTS: Final[Mapping[str, Mapping[tuple[str, int], float]]] = {
    "frown": {("mouth_corner_right", Y): 0.06, ("mouth_corner_left", Y): 0.06},
    "inner_brow_raise": {
        ("brow_inner_right", Y): -0.030,
        ("brow_inner_left", Y): -0.030,
    },
    "smile_left": {
        ("mouth_corner_left", X): 0.05,
        ("mouth_corner_left", Y): -0.06,
        ("cheek_left", Y): -0.05,
    },
    "lips_raise": {  # both lips, so that the gap between them stays
        ("lip_upper_mid", Y): -0.045,
        ("lip_upper_right", Y): -0.05,
        ("lip_upper_left", Y): -0.05,
        ("lip_lower_mid", Y): -0.045,
        ("lip_lower_right", Y): -0.05,
        ("lip_lower_left", Y): -0.05,
        ("cheek_right", Y): -0.03,
        ("cheek_left", Y): -0.03,
    },
}
"""Movements that no sum of actions makes: corners down (AU15), inner brows alone (AU1), one side of a smile (AU12), both lips up
(AU10 with AU17)."""
FURROW: Final = 3.0
"""Value of the action `brow_furrow` that a viewer reads as a furrow; at 1 the brows move by a third of what anger takes."""
PRESETS: Final[Mapping[str, Mapping[str, float]]] = {
    "happy": {"smile": 0.7, "brow_raise": 0.15, "lids": 0.12, "pitch": -1.0},
    "sad": {"smile": -0.35, "frown": 0.6, "inner_brow_raise": 0.9, "lids": 0.2, "pitch": 1.5},
    "angry": {"brow_furrow": FURROW, "lids": 0.08, "pitch": 1.0},
    "surprised": {"brow_raise": 1.0, "lids": -0.12},
    "fear": {"inner_brow_raise": 0.8, "brow_raise": 0.25, "lids": -0.1, "wide": 0.2},
    "disgust": {"lips_raise": 0.6, "brow_furrow": 0.4 * FURROW, "lids": 0.15},
    "contempt": {"smile_left": 0.6, "lids": 0.08},
    "serious": {"brow_furrow": 0.35 * FURROW, "frown": 0.15, "lids": 0.06},
}
"""Expression -> movements and actions at strength 1; `lids` is a share of a blink, `pitch` degrees."""
GAZE_REACH: Final = {"gaze_x": 0.9, "gaze_y": 0.9}
"""Action values of a gaze of 1."""
LIDS_FOLLOW: Final = 0.22
"""Share of a blink by which the upper lids follow a gaze that goes down, and half of it where it goes up."""


def movement_basis() -> F32:
    """Offsets of `MOVEMENTS`, float32 (n_movements, 21, 3)."""
    basis = np.zeros((len(MOVEMENTS), len(INDEX), 3), np.float32)
    for row, offsets in enumerate(MOVEMENTS.values()):
        for (point, axis), value in offsets.items():
            basis[row, INDEX[point], axis] = value
    return basis


def offsets_of(name: str) -> F32:
    """Offsets of one action or movement at 1, float32 (21, 3)."""
    if name in MOVEMENTS:
        moved: F32 = movement_basis()[list(MOVEMENTS).index(name)]
        return moved
    acted: F32 = action_basis()[ACTIONS.index(name)].numpy()
    return acted
