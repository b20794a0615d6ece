"""Smooth limits of motion: inside the natural range nothing changes, beyond it values level off instead of tearing the face.

The natural range of a face is that of the named actions (`engines.mini.rig`) and of the movements that expressions add
(`engines.mini.expression`): control-point offsets are split into least-squares values of both and a rest that none explains; each
is limited on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Final

import torch

from engines.mini.control_points import CONTROL_POINTS, INDEX, Unit
from engines.mini.expression import FURROW, MOVEMENTS, movement_basis
from engines.mini.rig import ACTIONS, action_basis
from engines.motion_layout import unpack_motion

X, Y, Z = 0, 1, 2

ANGLE_LIMITS_DEG: Final = (6.0, 5.0, 8.0)
"""Pitch, yaw, roll."""
TRANSLATION_LIMITS: Final = (0.06, 0.035, 0.04)
"""x, y, z in face widths."""
SCALE_LIMIT: Final = 0.04
SINK_LIMIT: Final = 0.10
"""How far, in mouth widths, the chin may sink by jaw opening before a lowered head gives way to it."""
KNEE: Final = 0.7
"""Share of a limit up to which a value passes unchanged."""
GAP_LIMIT: Final = 0.5
"""Largest inner-lip gap, mouth widths."""
ACTION_HIGH: Final = 1.15
"""Where values of actions and movements level off; up to 1.0 they pass unchanged."""
FURROW_HIGH: Final = ACTION_HIGH * FURROW
"""Where `brow_furrow` levels off; up to `FURROW` it passes unchanged."""
ACTION_LOW: Final[dict[str, float]] = {
    "gaze_x": 1.15, "gaze_y": 1.15, "smile": 0.5, "wide": 0.5, "brow_raise": 0.6, "brow_furrow": 0.5, "smile_left": 1.15,
}  # fmt: skip
"""How far below zero an action or movement may go; 0.2 where not listed."""
REST_LIMITS: Final[dict[Unit, float]] = {
    Unit.MOUTH: 0.01,
    Unit.EYE_OPENING: 0.25,
    Unit.EYE_WIDTH: 0.02,
    Unit.FACE_HEIGHT: 0.006,
}
"""Limits of what no action explains, in each point's unit."""
LID_WIDEST: Final = 0.14
BREATH: Final = (INDEX["chin"], Z)
"""Where motion carries the breath: the chin's depth moves nothing else. Face widths by which the chest is lifted."""
BREATH_LIMIT: Final = 0.02
LIP_RAISE_LIMIT: Final = 0.10
"""Largest rise of the upper lip, mouth widths."""


@dataclass(frozen=True)
class Motion:
    """Limited motion of n frames, float32.

    Attributes:
        angles_deg: (n, 3), pitch, yaw, roll.
        translation: (n, 3), face widths.
        scale: (n,).
        exp: (n, 21, 3).
        lids: (n, 2, 2), right and left eye; downward motion of the upper and the lower lid, eye openings.
        gaze: (n, 2, 2), right and left eye; x, y in eye widths.
        gap: (n,), inner-lip gap in mouth widths; below 0 pressed.
        tuck: (n,), 0..1, how far the lower lip is rolled in under the upper teeth.
        protrusion: (n,), 0..1, how far the lips are pushed forward.
        pucker: (n,), 0..1, how far the corners are drawn in.
        lowest: (n,), furthest downward motion of the lips, mouth widths.
        highest: (n,), furthest upward motion of the lips, mouth widths.
        widest: (n,), furthest outward motion of a corner, mouth widths.
        breath: (n,), lift of the chest, face widths.
    """

    angles_deg: torch.Tensor
    translation: torch.Tensor
    scale: torch.Tensor
    exp: torch.Tensor
    lids: torch.Tensor
    gaze: torch.Tensor
    gap: torch.Tensor
    tuck: torch.Tensor
    protrusion: torch.Tensor
    pucker: torch.Tensor
    lowest: torch.Tensor
    highest: torch.Tensor
    widest: torch.Tensor
    breath: torch.Tensor

    def frame(self, index: int) -> Motion:
        """Limit one frame, as a batch of one."""
        return Motion(*(getattr(self, item.name)[index : index + 1] for item in fields(self)))


def soft_limit(value: torch.Tensor, limit: torch.Tensor | float, knee: float = KNEE) -> torch.Tensor:
    """Identity up to `knee * limit`, then level off towards `limit`; odd, smooth in value and slope."""
    limit = torch.as_tensor(limit, dtype=value.dtype, device=value.device)
    start = knee * limit
    room = (limit - start).clamp(min=1e-9)
    size = value.abs()
    beyond = start + room * torch.tanh((size - start) / room)
    return torch.where(size <= start, value, torch.sign(value) * beyond)


def limit_motion(motion: torch.Tensor) -> Motion:
    """Motion float32 (n, 265) -> values that the renderer can draw."""
    angles, translation, exp, scale = unpack_motion(motion)
    device = motion.device
    angles = soft_limit(angles, torch.tensor(ANGLE_LIMITS_DEG, device=device), 0.5)
    translation = soft_limit(translation, torch.tensor(TRANSLATION_LIMITS, device=device), 0.5)
    scale = 1.0 + soft_limit(scale - 1.0, SCALE_LIMIT, 0.5)
    breath = soft_limit(exp[:, BREATH[0], BREATH[1]], BREATH_LIMIT)
    exp = _limit_lips(_ease_bite(_limit_values(exp)))
    sunk = exp[:, INDEX["chin"], Y].clamp(min=0.0)
    translation[:, 1] *= torch.where(translation[:, 1] > 0, 1.0 / (1.0 + (sunk / SINK_LIMIT) ** 2), 1.0)
    upper = exp[:, [INDEX["lid_upper_right"], INDEX["lid_upper_left"]], Y]
    lower = exp[:, [INDEX["lid_lower_right"], INDEX["lid_lower_left"]], Y]
    upper = torch.where(upper < 0, soft_limit(upper, LID_WIDEST), upper.clamp(max=1.2))
    lower = lower.clamp(-1.0, 0.15)
    tuck = exp[:, INDEX["lip_lower_mid"], Z] / 0.10
    lips = exp[:, [i for name, i in INDEX.items() if name.startswith(("lip_", "mouth_"))]]
    inwards = (exp[:, INDEX["mouth_corner_right"], X] - exp[:, INDEX["mouth_corner_left"], X]) / 2
    return Motion(
        angles_deg=angles,
        translation=translation,
        scale=scale,
        exp=exp,
        lids=torch.stack([upper, lower], dim=-1),
        gaze=exp[:, [INDEX["gaze_right"], INDEX["gaze_left"]], :2],
        gap=exp[:, INDEX["lip_lower_mid"], Y] - exp[:, INDEX["lip_upper_mid"], Y],
        tuck=tuck.clamp(0.0, 1.0),
        protrusion=(exp[:, INDEX["lip_lower_mid"], Z] / -0.14).clamp(0.0, 1.0),
        pucker=((inwards - 0.05) / 0.12).clamp(0.0, 1.0),
        lowest=lips[..., Y].amax(-1),
        highest=-lips[..., Y].amin(-1),
        widest=torch.maximum(-exp[:, INDEX["mouth_corner_right"], X], exp[:, INDEX["mouth_corner_left"], X]),
        breath=breath,
    )


@cache
def _value_maps() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values to offsets (v, 63), offsets to values (63, v), floors and ceilings of values (v,), limits of the rest (63,).

    Values are those of all actions, then of all movements.
    """
    names = (*ACTIONS, *MOVEMENTS)
    basis = torch.cat([action_basis(), torch.from_numpy(movement_basis())]).flatten(1)
    floors = torch.tensor([ACTION_LOW.get(name, 0.2) for name in names])
    ceilings = torch.tensor([FURROW_HIGH if name == "brow_furrow" else ACTION_HIGH for name in names])
    rest = torch.tensor([REST_LIMITS[point.unit] for point in CONTROL_POINTS]).repeat_interleave(3)
    return basis, torch.linalg.pinv(basis.double()).float(), floors, ceilings, rest


def _rows_times(rows: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """`rows @ matrix`, on the CPU row by row: a matrix product rounds differently for another number of rows."""
    if rows.device.type != "cpu":
        return rows @ matrix
    return torch.stack([row @ matrix for row in rows])


def _limit_values(exp: torch.Tensor) -> torch.Tensor:
    basis, inverse, floors, ceilings, rest_limits = (part.to(exp.device) for part in _value_maps())
    flat = exp.flatten(1)
    values = _rows_times(flat, inverse)
    rest = soft_limit(flat - _rows_times(values, basis), rest_limits)
    limited = torch.where(values > 0, soft_limit(values, ceilings, 1.0 / ACTION_HIGH), soft_limit(values, floors))
    return (_rows_times(limited, basis) + rest).reshape(exp.shape)


def _ease_bite(exp: torch.Tensor) -> torch.Tensor:
    """With the lower lip rolled in, the upper lip need not rise as far to show the teeth on it."""
    exp = exp.clone()
    for side in ("mid", "right", "left"):
        exp[:, INDEX[f"lip_upper_{side}"], Y] += 0.33 * exp[:, INDEX[f"lip_lower_{side}"], Z].clamp(min=0.0)
    return exp


def _limit_lips(exp: torch.Tensor) -> torch.Tensor:
    """Keep the gap in range, and the sides of the mouth no further open than its middle."""
    exp = exp.clone()
    for side in ("mid", "right", "left"):
        raised = exp[:, INDEX[f"lip_upper_{side}"], Y]
        kept = torch.where(raised < 0, soft_limit(raised, LIP_RAISE_LIMIT), raised)
        exp[:, INDEX[f"lip_upper_{side}"], Y] = kept
        exp[:, INDEX[f"lip_lower_{side}"], Y] += kept - raised  # the gap stays what it was
    low, up = INDEX["lip_lower_mid"], INDEX["lip_upper_mid"]
    gap = exp[:, low, Y] - exp[:, up, Y]
    limited = torch.where(gap > 0, soft_limit(gap, GAP_LIMIT, 0.85), soft_limit(gap, 0.05, 0.5))
    exp[:, low, Y] += limited - gap
    for side in ("right", "left"):
        low_side, up_side = INDEX[f"lip_lower_{side}"], INDEX[f"lip_upper_{side}"]
        side_gap = exp[:, low_side, Y] - exp[:, up_side, Y]
        allowed = torch.maximum(torch.minimum(side_gap, limited), limited.clamp(max=0.0) - 0.02)
        exp[:, low_side, Y] += allowed - side_gap
    return exp
