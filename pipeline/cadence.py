"""Changing the frame rate in motion space: 25 -> 50 frames/s, and the optional stride-2 cadence.

Rotations are interpolated on the sphere (SLERP), everything else linearly. Nothing here ever reads a frame that does not exist:
the neighbour of the last frame of a clip is the frame before it, never a clamp into memory that was not computed.
"""

from __future__ import annotations

import numpy as np
import torch

from engines.motion_layout import pack_motion, unpack_motion
from engines.rotation import matrix_to_angles_deg, rotation_matrix, slerp
from pipeline.types import F32


def between(before: F32, after: F32) -> F32:
    """Motion half-way between two frames: (n, 265), (n, 265) -> (n, 265)."""
    angles_a, shift_a, exp_a, scale_a = unpack_motion(torch.from_numpy(np.ascontiguousarray(before)))
    angles_b, shift_b, exp_b, scale_b = unpack_motion(torch.from_numpy(np.ascontiguousarray(after)))
    turned = slerp(rotation_matrix(angles_a), rotation_matrix(angles_b), 0.5)
    mixed = pack_motion(
        matrix_to_angles_deg(turned), (shift_a + shift_b) / 2, (exp_a + exp_b) / 2, (scale_a + scale_b) / 2
    )
    return mixed.numpy()


def double_rate(motion: F32, following: F32 | None) -> F32:
    """25 -> 50 frames/s.

    Args:
        motion: (n, 265), consecutive frames at 25 frames/s.
        following: (265,), the frame after the last one; None at the end of a clip, where the last frame is held.

    Returns:
        (2 n, 265): each frame, then the midpoint to its successor.
    """
    last = motion[-1] if following is None else following
    successors = np.concatenate([motion[1:], last[None]])
    doubled = np.empty((2 * len(motion), motion.shape[1]), dtype=np.float32)
    doubled[0::2] = motion
    doubled[1::2] = between(motion, successors)
    return doubled


def infill_odd_frames(motion: F32, first_frame: int, following: F32 | None) -> F32:
    """The stride-2 cadence: frames with an odd index are replaced by the midpoint of their neighbours.

    Args:
        motion: (n, 265); only rows whose absolute index is even need to be valid.
        first_frame: Absolute index of the first row; odd chunks are fine as long as `motion` starts on an even frame.
        following: (265,), the next even frame after the chunk; None at the end of a clip: the odd last frame then takes
            the frame before it.

    Returns:
        (n, 265), even frames unchanged.

    Raises:
        ValueError: `first_frame` is odd, so that the first row would need a frame that is not here.
    """
    if first_frame % 2:
        raise ValueError(f"a stride-2 chunk starts on an even frame, got {first_frame}")
    even = motion[0::2]
    odd_count = len(motion) // 2
    successors = even[1 : odd_count + 1]
    if len(successors) < odd_count:
        tail = even[-1] if following is None else following
        successors = np.concatenate([successors, tail[None]])
    filled = motion.copy()
    filled[1::2] = between(even[:odd_count], successors)
    return filled
