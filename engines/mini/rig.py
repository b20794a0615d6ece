"""Named facial actions and their fixed linear map onto the 21 control points.

People and phoneme tables speak in actions ("jaw open", "blink"); motion vectors carry control-point offsets. The map is linear, so
that averages, interpolations and fades of motion are those of the actions. Values are fractions of the unit of each
control point (`engines.mini.control_points`); an action of 1.0 is its natural maximum.
"""

from __future__ import annotations

from typing import Final

import torch

from engines.mini.control_points import INDEX

X, Y, Z = 0, 1, 2

_ACTION_OFFSETS: Final[dict[str, dict[tuple[str, int], float]]] = {
    "jaw_open": {
        ("chin", Y): 0.34,
        ("lip_lower_mid", Y): 0.37,
        ("lip_lower_right", Y): 0.33,
        ("lip_lower_left", Y): 0.33,
        ("lip_upper_mid", Y): -0.01,
        ("mouth_corner_right", Y): 0.07,
        ("mouth_corner_left", Y): 0.07,
        ("mouth_corner_right", X): 0.025,
        ("mouth_corner_left", X): -0.025,
        ("cheek_right", Y): 0.06,
        ("cheek_left", Y): 0.06,
    },
    "lips_part": {
        ("lip_upper_mid", Y): -0.07,
        ("lip_upper_right", Y): -0.06,
        ("lip_upper_left", Y): -0.06,
        ("lip_lower_mid", Y): 0.11,
        ("lip_lower_right", Y): 0.095,
        ("lip_lower_left", Y): 0.095,
    },
    "wide": {
        ("mouth_corner_right", X): -0.085,
        ("mouth_corner_left", X): 0.085,
        ("lip_upper_right", X): -0.045,
        ("lip_upper_left", X): 0.045,
        ("lip_lower_right", X): -0.045,
        ("lip_lower_left", X): 0.045,
        ("cheek_right", X): -0.03,
        ("cheek_left", X): 0.03,
        ("cheek_right", Y): -0.015,
        ("cheek_left", Y): -0.015,
    },
    "pucker": {
        ("mouth_corner_right", X): 0.17,
        ("mouth_corner_left", X): -0.17,
        ("lip_upper_right", X): 0.085,
        ("lip_upper_left", X): -0.085,
        ("lip_lower_right", X): 0.085,
        ("lip_lower_left", X): -0.085,
        ("lip_upper_mid", Z): -0.16,
        ("lip_lower_mid", Z): -0.14,
        ("lip_upper_right", Z): -0.11,
        ("lip_upper_left", Z): -0.11,
        ("lip_lower_right", Z): -0.10,
        ("lip_lower_left", Z): -0.10,
        ("cheek_right", X): 0.03,
        ("cheek_left", X): -0.03,
    },
    "press": {
        ("lip_upper_mid", Y): 0.018,
        ("lip_upper_right", Y): 0.016,
        ("lip_upper_left", Y): 0.016,
        ("lip_lower_mid", Y): -0.018,
        ("lip_lower_right", Y): -0.016,
        ("lip_lower_left", Y): -0.016,
        ("mouth_corner_right", X): -0.012,
        ("mouth_corner_left", X): 0.012,
    },
    "lower_tuck": {
        ("lip_lower_mid", Y): -0.01,
        ("lip_lower_right", Y): -0.01,
        ("lip_lower_left", Y): -0.01,
        ("lip_lower_mid", Z): 0.10,
        ("lip_lower_right", Z): 0.08,
        ("lip_lower_left", Z): 0.08,
        ("lip_upper_mid", Y): -0.085,
        ("lip_upper_right", Y): -0.07,
        ("lip_upper_left", Y): -0.07,
        ("chin", Y): -0.01,
    },
    "smile": {
        ("mouth_corner_right", X): -0.05,
        ("mouth_corner_left", X): 0.05,
        ("mouth_corner_right", Y): -0.06,
        ("mouth_corner_left", Y): -0.06,
        ("cheek_right", Y): -0.05,
        ("cheek_left", Y): -0.05,
    },
    "blink_right": {("lid_upper_right", Y): 0.90, ("lid_lower_right", Y): -0.10},
    "blink_left": {("lid_upper_left", Y): 0.90, ("lid_lower_left", Y): -0.10},
    "gaze_x": {("gaze_right", X): 0.12, ("gaze_left", X): 0.12},
    "gaze_y": {("gaze_right", Y): 0.08, ("gaze_left", Y): 0.08},
    "brow_raise": {
        ("brow_inner_right", Y): -0.030,
        ("brow_inner_left", Y): -0.030,
        ("brow_outer_right", Y): -0.032,
        ("brow_outer_left", Y): -0.032,
    },
    "brow_furrow": {
        ("brow_inner_right", Y): 0.014,
        ("brow_inner_left", Y): 0.014,
        ("brow_inner_right", X): 0.010,
        ("brow_inner_left", X): -0.010,
    },
}

ACTIONS: Final[tuple[str, ...]] = tuple(_ACTION_OFFSETS)
"""Action names in the order of the action vector."""

ACTION_INDEX: Final[dict[str, int]] = {name: i for i, name in enumerate(ACTIONS)}


def action_basis() -> torch.Tensor:
    """The linear map, float32 (n_actions, 21, 3)."""
    basis = torch.zeros(len(ACTIONS), len(INDEX), 3)
    for row, offsets in enumerate(_ACTION_OFFSETS.values()):
        for (point, axis), value in offsets.items():
            basis[row, INDEX[point], axis] = value
    return basis


def actions_to_exp(actions: torch.Tensor) -> torch.Tensor:
    """Action values (..., n_actions), each about 0..1 -> control point offsets `exp` (..., 21, 3)."""
    return torch.einsum("...a,apc->...pc", actions, action_basis().to(actions))


def mouth_gap(exp: torch.Tensor) -> torch.Tensor:
    """Commanded inner-lip gap in mouth widths, (..., 21, 3) -> (...,); 0 is just closed, below 0 pressed together."""
    return exp[..., INDEX["lip_lower_mid"], Y] - exp[..., INDEX["lip_upper_mid"], Y]
