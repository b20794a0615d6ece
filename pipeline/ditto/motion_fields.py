"""A face's motion as named fields, and the keypoints that follow from it (ditto.md sections 4 and 7, step 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

from engines.motion_layout import BIN_OFFSET_DEG, BIN_WIDTH_DEG, POSE_BINS
from engines.rotation import rotation_matrix
from kernels.arrays import F32

MotionFields = Mapping[str, F32]
"""Field -> float32 (1, k): scale 1, pitch yaw roll 66 logits or 1 (degrees), t 3, exp 63, and kp 63 for sources."""

VECTOR_FIELDS: Final[dict[str, int]] = {"scale": 1, "pitch": 66, "yaw": 66, "roll": 66, "t": 3, "exp": 63}
"""Order and widths of the 265-d motion vector; the scale travels minus 1."""

POSE_FIELDS: Final = ("pitch", "yaw", "roll")


def to_vector(fields: MotionFields) -> F32:
    """Fields -> motion vector (265,)."""
    parts = [fields["scale"][0] - 1.0, *(fields[name][0] for name in VECTOR_FIELDS if name != "scale")]
    return np.concatenate(parts).astype(np.float32)


def from_vector(motion: F32) -> dict[str, F32]:
    """Motion vectors (265,) or (n, 265) -> fields, one row or n."""
    edges = np.cumsum(list(VECTOR_FIELDS.values()))[:-1]
    parts = np.split(np.atleast_2d(np.asarray(motion, np.float32)), edges, axis=1)
    fields = {name: part.copy() for name, part in zip(VECTOR_FIELDS, parts, strict=True)}
    fields["scale"] += np.float32(1.0)
    return fields


def to_degrees(angle: F32) -> F32:
    """Pose field (n, 66) of logits -> degrees (n,); anything else is degrees already and is returned as (n,)."""
    if angle.ndim == 2 and angle.shape[1] == POSE_BINS:
        share = torch.softmax(torch.from_numpy(angle), dim=1)
        degrees = (share * torch.arange(POSE_BINS, dtype=torch.float32)).sum(1) * BIN_WIDTH_DEG - BIN_OFFSET_DEG
        return np.asarray(degrees.numpy(), np.float32)
    return angle.reshape(-1)


def keypoints(fields: MotionFields) -> F32:
    """Keypoints float32 (n, 21, 3) of n faces: scale * (kp @ R + exp) + (t_x, t_y, 0)."""
    angles = np.stack([to_degrees(fields[name]) for name in POSE_FIELDS], axis=-1)
    turn = rotation_matrix(torch.from_numpy(angles.astype(np.float32))).numpy()
    canonical, exp = (fields[name].reshape(-1, 21, 3) for name in ("kp", "exp"))
    points = (canonical @ turn + exp) * fields["scale"].reshape(-1, 1, 1)
    points[:, :, :2] += fields["t"][:, None, :2]
    out: F32 = points.astype(np.float32)
    return out


def smooth_fields(frames: list[dict[str, F32]], width: int) -> list[dict[str, F32]]:
    """Mean filter over time, truncated at the ends, every field (pose logits too); one frame stays as it is.

    Args:
        frames: Source motion of a template video.
        width: Odd number of frames; 1 or less changes nothing.
    """
    if len(frames) <= 1 or width <= 1:
        return frames
    half = width // 2
    smoothed: list[dict[str, F32]] = []
    for index in range(len(frames)):
        window = frames[max(0, index - half) : index + half + 1]
        smoothed.append({name: np.stack([f[name] for f in window]).mean(axis=0) for name in frames[index]})
    return smoothed


def mirror_index(index: int, count: int) -> int:
    """Source frame of an output frame: 0 .. n-1, n-1 .. 0, 0 .. (end frames repeat); negative indices give 0."""
    turn, rest = divmod(max(index, 0), count)
    return count - rest - 1 if turn % 2 else rest
