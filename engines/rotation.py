"""Head rotations: Euler angles, matrices and interpolation on the sphere.

`R = (Rz Ry Rx)^T` with pitch about x, yaw about y, roll about z, right-handed, degrees; row vectors are turned by `p @ R`
(ditto.md section 7, step 10).
"""

from __future__ import annotations

import torch


def rotation_matrix(angles_deg: torch.Tensor) -> torch.Tensor:
    """Angles (..., 3) pitch, yaw, roll in degrees -> R (..., 3, 3)."""
    pitch, yaw, roll = torch.deg2rad(angles_deg).unbind(-1)
    cx, sx, cy, sy, cz, sz = pitch.cos(), pitch.sin(), yaw.cos(), yaw.sin(), roll.cos(), roll.sin()
    rows = [
        torch.stack([cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx], dim=-1),
        torch.stack([sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx], dim=-1),
        torch.stack([-sy, cy * sx, cy * cx], dim=-1),
    ]
    return torch.stack(rows, dim=-2).transpose(-1, -2)


def matrix_to_angles_deg(rotation: torch.Tensor) -> torch.Tensor:
    """R (..., 3, 3) -> angles (..., 3) pitch, yaw, roll in degrees; the inverse of `rotation_matrix` for |yaw| < 90."""
    turned = rotation.transpose(-1, -2)
    pitch = torch.atan2(turned[..., 2, 1], turned[..., 2, 2])
    yaw = torch.asin(torch.clamp(-turned[..., 2, 0], -1.0, 1.0))
    roll = torch.atan2(turned[..., 1, 0], turned[..., 0, 0])
    return torch.rad2deg(torch.stack([pitch, yaw, roll], dim=-1))


def slerp(start: torch.Tensor, end: torch.Tensor, share: float) -> torch.Tensor:
    """Rotation a `share` (0..1) of the way along the shortest arc from `start` to `end`, both (..., 3, 3).

    Computed as `start @ exp(share * log(start^T end))` with Rodrigues' formula. Arcs of half a turn have no unique answer;
    heads do not make them.
    """
    delta = start.transpose(-1, -2) @ end
    trace = delta.diagonal(dim1=-2, dim2=-1).sum(-1)
    skew = (delta - delta.transpose(-1, -2)) / 2.0
    # atan2, not acos: a head turns by fractions of a degree per frame, where acos loses half its digits
    sine = torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], dim=-1).norm(dim=-1)
    angle = torch.atan2(sine, (trace - 1.0) / 2.0)
    # sin(angle) * axis is the skew part; both factors below tend to finite limits at 0
    small = angle < 1e-4
    safe = torch.where(small, torch.ones_like(angle), angle)
    part = share * angle
    first = torch.where(small, torch.full_like(angle, share), torch.sin(part) / torch.sin(safe))
    second = torch.where(
        small, torch.full_like(angle, share * share / 2.0), (1.0 - torch.cos(part)) / torch.sin(safe) ** 2
    )
    identity = torch.eye(3, dtype=start.dtype, device=start.device).expand_as(delta)
    step = identity + first[..., None, None] * skew + second[..., None, None] * (skew @ skew)
    return start @ step
