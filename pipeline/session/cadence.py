"""Changing the frame rate in motion space: 25 -> 50 or any other rate, and the optional stride-2 cadence.

Rotations are interpolated on the sphere (SLERP), everything else linearly. Nothing here ever reads a frame that does not exist:
the neighbour of the last frame of a clip is the frame before it, never a clamp into memory that was not computed.
"""

from __future__ import annotations

import numpy as np
import torch

from engines.motion_layout import pack_motion, unpack_motion
from engines.rotation import matrix_to_angles_deg, rotation_matrix, slerp
from kernels.arrays import F32
from pipeline.clock import frames_before, motion_position
from pipeline.types import MOTION_FPS


def between(before: F32, after: F32, share: float = 0.5) -> F32:
    """Motion a `share` (0..1) of the way from one frame to another: (n, 265), (n, 265) -> (n, 265)."""
    angles_a, shift_a, exp_a, scale_a = unpack_motion(torch.from_numpy(np.ascontiguousarray(before)))
    angles_b, shift_b, exp_b, scale_b = unpack_motion(torch.from_numpy(np.ascontiguousarray(after)))
    turned = slerp(rotation_matrix(angles_a), rotation_matrix(angles_b), share)

    def mix(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * (1.0 - share) + b * share

    return pack_motion(
        matrix_to_angles_deg(turned), mix(shift_a, shift_b), mix(exp_a, exp_b), mix(scale_a, scale_b)
    ).numpy()


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


def at_rate(motion: F32, first_frame: int, following: F32 | None, fps: float) -> F32:
    """25 -> `fps` frames/s: every video frame that lies at one of these frames of motion, or between it and the next.

    Args:
        motion: (n, 265), consecutive frames at 25 frames/s.
        first_frame: Index of the first one.
        following: (265,), the frame after the last one; None at the end of a clip, where the last frame is held.
        fps: Frames per second, at least 25; 59.94 stands for 60000/1001.

    Returns:
        (m, 265). Cutting the motion otherwise changes nothing.
    """
    if fps == 2 * MOTION_FPS:
        return double_rate(motion, following)
    last = motion[-1] if following is None else following
    known = np.concatenate([motion, last[None]])
    rows = []
    for frame in range(frames_before(first_frame, fps), frames_before(first_frame + len(motion), fps)):
        position = motion_position(frame, fps)
        index, share = int(position) - first_frame, float(position % 1)
        rows.append(
            between(known[index : index + 1], known[index + 1 : index + 2], share) if share else known[index][None]
        )
    return np.concatenate(rows).astype(np.float32, copy=False)


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
