"""Motion of a whole file, for families that make better motion of what they can see to its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

import numpy as np

from kernels.arrays import F32
from pipeline.config import FileMotion
from pipeline.families import find_family
from pipeline.stages import Carry, Stages
from pipeline.types import ROWS_PER_FRAME, SAMPLES_PER_FRAME, Avatar, MotionChunk


@dataclass(frozen=True)
class ClipStart:
    """How a session cuts a clip for the neural stages.

    Attributes:
        carry: Carry of the first call to the motion stage.
        context_samples: Samples at 16 kHz that a feature window holds before its first frame.
        tail_samples: Samples at 16 kHz that a feature window holds after its last frame.
        frames: Number of frames of features in all.
        block_frames: Frames of features in a block; every window is a whole number of blocks.
        window_frames: Frames of features that one call makes, at most.
    """

    carry: Carry
    context_samples: int
    tail_samples: int
    frames: int
    block_frames: int
    window_frames: int


def clip_start(avatar: Avatar, seed: int, samples: int, motion: FileMotion) -> ClipStart | None:
    """Give the way in which a file of this avatar is cut; None where it moves as in a live session.

    Args:
        avatar: The presenter.
        seed: Session seed.
        samples: Length of the clip in samples at 16 kHz, at least 1.
        motion: The kind of motion that the settings ask for.

    Raises:
        InvalidInputError: The family has no such motion.
    """
    return find_family(avatar.family).clip_start(avatar, seed, samples, motion)


async def clip_motion(pcm: F32, stages: Stages, start: ClipStart) -> AsyncGenerator[MotionChunk, None]:
    """Feed a whole clip to the neural stages.

    Args:
        pcm: float32 (n,), 16 kHz.
        stages: The stage calls.
        start: What `clip_start` answered for this clip.

    Yields:
        Consecutive motion as it becomes final; the very first frame is flagged (`MotionChunk.hold`).
    """
    carry, began = start.carry, False
    for first in range(0, start.frames, start.window_frames):
        blocks = -(-min(start.window_frames, start.frames - first) // start.block_frames)
        begin = first * SAMPLES_PER_FRAME - start.context_samples
        length = start.context_samples + blocks * start.block_frames * SAMPLES_PER_FRAME + start.tail_samples
        rows = await stages.audio_features(_window(pcm, begin, length), first * ROWS_PER_FRAME)
        chunk, carry = await stages.motion_diffusion(rows, carry)
        if len(chunk.motion):
            yield chunk if began else replace(chunk, hold=np.arange(len(chunk.motion)) == 0)
            began = True


def _window(pcm: F32, begin: int, length: int) -> F32:
    """Samples begin .. begin + length, silence where there are none."""
    window = np.zeros(length, np.float32)
    first, last = max(begin, 0), min(begin + length, len(pcm))
    if last > first:
        window[first - begin : last - begin] = pcm[first:last]
    return window
