"""The 265-d motion vector: Ditto's layout, shared by every family.

`[scale - 1 (1) | pitch logits (66) | yaw logits (66) | roll logits (66) | t (3) | exp (63)]`, float32, 25 frames/s.
Angles are degrees, encoded over 66 bins of 3 degrees: `sum(softmax(logits) * k) * 3 - 97.5`, k = 0..65 (ditto.md sections 4, 7).
Pitch turns about x (positive looks down), yaw about y, roll about z. `t` is in units of the face width for `mini`.
"""

from __future__ import annotations

import torch

MOTION_DIM = 265
SCALE = slice(0, 1)
PITCH = slice(1, 67)
YAW = slice(67, 133)
ROLL = slice(133, 199)
TRANSLATION = slice(199, 202)
EXP = slice(202, 265)

POSE_BINS = 66
BIN_WIDTH_DEG = 3.0
BIN_OFFSET_DEG = 97.5
LOGIT_SIGMA_DEG = 6.0
"""Width of the Gaussian that `encode_angle` writes; wide against the bin width, so that decoding is exact to 1e-3 degrees."""


def bin_centres_deg(device: torch.device | str = "cpu") -> torch.Tensor:
    """Centres of the 66 pose bins in degrees, shape (66,), float32."""
    return torch.arange(POSE_BINS, dtype=torch.float32, device=device) * BIN_WIDTH_DEG - BIN_OFFSET_DEG


def encode_angle(angle_deg: torch.Tensor) -> torch.Tensor:
    """Angle (...,) in degrees, |angle| <= 60 -> logits (..., 66).

    The logits are those of a Gaussian around the angle without its constant term, so they are *linear* in the angle up to
    a fixed vector: averages and differences of logits are averages and differences of angles.
    """
    centres = bin_centres_deg(angle_deg.device)
    return (centres * angle_deg.unsqueeze(-1) - 0.5 * centres**2) / LOGIT_SIGMA_DEG**2


def decode_angle(logits: torch.Tensor) -> torch.Tensor:
    """Logits (..., 66) -> angle (...,) in degrees."""
    return (torch.softmax(logits.float(), dim=-1) * bin_centres_deg(logits.device)).sum(-1)


def pack_motion(
    angles_deg: torch.Tensor, translation: torch.Tensor, exp: torch.Tensor, scale: torch.Tensor | None = None
) -> torch.Tensor:
    """Build motion (..., 265).

    Args:
        angles_deg: (..., 3) pitch, yaw, roll in degrees.
        translation: (..., 3).
        exp: (..., 21, 3) or (..., 63).
        scale: (...,), 1.0 = as registered; None means 1.0.
    """
    exp = exp.reshape(*angles_deg.shape[:-1], EXP.stop - EXP.start)
    logits = encode_angle(angles_deg).flatten(-2)
    factor = torch.ones_like(angles_deg[..., :1]) if scale is None else scale.unsqueeze(-1)
    return torch.cat([factor - 1.0, logits, translation, exp], dim=-1)


def unpack_motion(motion: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Motion (..., 265) -> angles_deg (..., 3), translation (..., 3), exp (..., 21, 3), scale (...,)."""
    angles = torch.stack([decode_angle(motion[..., part]) for part in (PITCH, YAW, ROLL)], dim=-1)
    exp = motion[..., EXP].reshape(*motion.shape[:-1], 21, 3)
    return angles, motion[..., TRANSLATION], exp, motion[..., 0] + 1.0
