"""What the motion model must know of an avatar, and what its motion does to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.ditto.config import DittoConfig
from engines.motion_layout import EXP, MOTION_DIM
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.ditto.motion_fields import VECTOR_FIELDS, MotionFields, to_vector
from pipeline.ditto.motion_stitch import EYE_KEYPOINTS, IMAGE_KEYS, LIP_KEYPOINTS, VIDEO_KEYS

EYE_DIMS: Final = np.array([EXP.start + 3 * point + axis for point in EYE_KEYPOINTS for axis in range(3)])
"""Dims of the motion vector that move the eyes."""
STILL_DIMS: Final = np.array(
    [
        EXP.start + 3 * point + axis
        for point in range(21)
        if point not in (*EYE_KEYPOINTS, *LIP_KEYPOINTS)
        for axis in range(3)
    ]
)
"""Dims of the expression that speech does not move: they keep what the source has, but for what is expressed."""


@dataclass(frozen=True)
class Speaker:
    """An avatar as the motion model sees it; travels in the carry.

    Motion leaves the motion stage as **offsets**: what is added to the source's own motion vector, frame by frame. An idle face is
    an offset of (nearly) zero, so speech and idleness join without a jump, and the renderer needs no memory.

    Attributes:
        source: float32 (265,), condition frame of the first window and of resets.
        shape: float32 (63,), canonical keypoints.
        eye_open: float32 (n, 2) per source frame.
        eye_ball: float32 (n, 6) per source frame.
        drive: float32 (265,), weight of every dim of the driving motion; 0 leaves the source's.
        blink: float32 (m, 63), m = 15: the canned blink, added to the source's eyes; m = 0: the driving motion moves the eyes.
    """

    source: F32
    shape: F32
    eye_open: F32
    eye_ball: F32
    drive: F32
    blink: F32


def make_speaker(
    source_motion: Sequence[MotionFields], eye_open: F32, eye_ball: F32, config: DittoConfig, is_image: bool
) -> Speaker:
    """The speaker of an avatar under a configuration.

    Args:
        source_motion: Motion of every source frame, with `kp`.
        eye_open: float32 (n, 2).
        eye_ball: float32 (n, 6).
        config: A reference character in it (`ch_info`) takes the avatar's place as a condition.
        is_image: One picture, or a template video.

    Raises:
        InvalidInputError: The configuration drives absolutely, which live sessions cannot do.
    """
    if not config.relative_d:
        raise InvalidInputError("relative_d", "False", "True", "live sessions drive by differences only")
    if config.eye_f0_mode:
        eye_open, eye_ball = eye_open[:1], eye_ball[:1]
    drives_eyes = is_image if config.drive_eye is None else config.drive_eye
    blink = config.delta_eye_arr if drives_eyes and config.delta_eye_arr is not None else np.zeros((0, 63), np.float32)
    drive = _drive(source_motion[0], config, is_image)
    character = config.ch_info
    if character is None:
        first = source_motion[0]
        return Speaker(to_vector(first), first["kp"][0].astype(np.float32), eye_open, eye_ball, drive, blink)
    return Speaker(
        to_vector(character.motion), character.shape[0], character.eye_open, character.eye_ball, drive, blink
    )


def _drive(first: MotionFields, config: DittoConfig, is_image: bool) -> F32:
    """Weights per dim; the ratio of scales rescales a reference character's motion, its translation excepted."""
    keys = config.use_d_keys if config.use_d_keys else (IMAGE_KEYS if is_image else VIDEO_KEYS)
    weights = dict(keys) if isinstance(keys, Mapping) else dict.fromkeys(keys, 1.0)
    if config.ch_info is not None and not isinstance(keys, Mapping):
        ratio = float(config.ch_info.motion["scale"].reshape(-1)[0]) / float(first["scale"].reshape(-1)[0])
        weights = {name: 1.0 if name == "t" else ratio for name in weights}
    parts = [np.full(width, weights.get(name, 0.0), np.float32) for name, width in VECTOR_FIELDS.items()]
    drive: F32 = np.concatenate(parts)
    return drive


def to_offsets(motion: F32, first_driving: F32, speaker: Speaker, blink_index: Sequence[int]) -> F32:
    """Driving motion -> offsets.

    Args:
        motion: float32 (n, 265), inside its limits.
        first_driving: float32 (265,), the motion that means "no offset" (d0).
        speaker: The session's speaker.
        blink_index: Index into the canned blink per frame, 0 = open.

    Returns:
        float32 (n, 265).
    """
    offsets: F32 = ((motion - first_driving) * speaker.drive).astype(np.float32)
    offsets[:, STILL_DIMS] = 0.0
    if len(speaker.blink):
        offsets[:, EYE_DIMS] = blink_offsets(speaker, blink_index)[:, EYE_DIMS]
    return offsets


def blink_offsets(speaker: Speaker, blink_index: Sequence[int]) -> F32:
    """Offsets of the canned blink alone, float32 (n, 265); zeros where the avatar has none."""
    offsets = np.zeros((len(blink_index), MOTION_DIM), np.float32)
    if len(speaker.blink):
        exp = np.zeros((len(blink_index), EXP.stop - EXP.start), np.float32)
        exp[:] = speaker.blink[list(blink_index)]
        offsets[:, EXP] = exp
        keep = np.zeros(MOTION_DIM, bool)
        keep[EYE_DIMS] = True
        offsets[:, ~keep] = 0.0
    return offsets
