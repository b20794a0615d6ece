"""Smooth limits of motion: inside the natural range nothing changes, beyond it values level off instead of tearing the face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from engines.control_points import CONTROL_POINTS, INDEX, Unit
from engines.motion_layout import unpack_motion

X, Y, Z = 0, 1, 2

ANGLE_LIMITS_DEG: Final = (8.0, 5.0, 8.0)
"""Pitch, yaw, roll."""
TRANSLATION_LIMITS: Final = (0.06, 0.06, 0.05)
SCALE_LIMIT: Final = 0.06
KNEE: Final = 0.7
"""Share of a limit up to which a value passes unchanged."""
GAP_LIMIT: Final = 0.5
"""Largest inner-lip gap, mouth widths."""
POINT_LIMITS: Final[dict[Unit, tuple[float, float, float]]] = {
    Unit.MOUTH: (0.30, 0.62, 0.30),
    Unit.EYE_OPENING: (0.3, 1.6, 0.3),
    Unit.EYE_WIDTH: (0.15, 0.07, 0.1),
    Unit.FACE_HEIGHT: (0.03, 0.05, 0.03),
}
LID_WIDEST: Final = 0.14


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

    def frame(self, index: int) -> Motion:
        """One frame as a batch of one."""
        part = slice(index, index + 1)
        return Motion(*(getattr(self, name)[part] for name in self.__dataclass_fields__))


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
    limits = torch.tensor([POINT_LIMITS[point.unit] for point in CONTROL_POINTS], device=device)
    exp = _limit_lips(_ease_bite(soft_limit(exp, limits)))
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
    )


def _ease_bite(exp: torch.Tensor) -> torch.Tensor:
    """With the lower lip rolled in, the upper lip need not rise as far to show the teeth on it."""
    exp = exp.clone()
    for side in ("mid", "right", "left"):
        exp[:, INDEX[f"lip_upper_{side}"], Y] += 0.33 * exp[:, INDEX[f"lip_lower_{side}"], Z].clamp(min=0.0)
    return exp


def _limit_lips(exp: torch.Tensor) -> torch.Tensor:
    """Keep the gap in range, and the sides of the mouth no further open than its middle."""
    exp = exp.clone()
    low, up = INDEX["lip_lower_mid"], INDEX["lip_upper_mid"]
    gap = exp[:, low, Y] - exp[:, up, Y]
    limited = torch.where(gap > 0, soft_limit(gap, GAP_LIMIT, 0.85), soft_limit(gap, 0.05, 0.5))
    exp[:, low, Y] += limited - gap
    for side in ("right", "left"):
        low_side, up_side = INDEX[f"lip_lower_{side}"], INDEX[f"lip_upper_{side}"]
        side_gap = exp[:, low_side, Y] - exp[:, up_side, Y]
        # never below the pressed middle, never wider open than an ellipse through the middle allows
        allowed = torch.where(limited > 0, limited, limited)
        exp[:, low_side, Y] += torch.maximum(torch.minimum(side_gap, allowed), limited.clamp(max=0.0) - 0.02) - side_gap
    return exp
