"""The motion of one stretch of speech: out of a pose that the viewer sees, hop by hop through the neural stages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np

from kernels.arrays import F32
from pipeline.stages import Carry, StageInfo, Stages
from pipeline.types import FEATURE_RATE_HZ, ROWS_PER_FRAME, SAMPLES_PER_FRAME, FeatureRows, MotionChunk

Hear = Callable[[F32, int], Awaitable[FeatureRows]]


async def set_up(stages: Stages, carry: Carry) -> Carry | None:
    """Let the motion stage do before the first sample what does not depend on samples; None where the family has no set-up."""
    if not stages.info.sets_up:
        return None
    _, prepared = await stages.motion_diffusion(FeatureRows(np.zeros((0, 0), np.float32), FEATURE_RATE_HZ, 0), carry)
    return prepared


def window_of(info: StageInfo, first_frame: int, hop_frames: int) -> tuple[int, int]:
    """First sample and length of the feature window of a hop."""
    start = first_frame * SAMPLES_PER_FRAME - info.context_samples
    return start, info.context_samples + hop_frames * SAMPLES_PER_FRAME + info.lookahead_samples


class SpokenMotion:
    """Makes the motion of one stretch of speech, hop by hop.

    Args:
        stages: The neural stages.
        carry: The carry with which the stretch begins, from `MotionBehaviour.start`.
        hear: Window and index of its first row -> features; None: a call to the stage.
    """

    def __init__(self, stages: Stages, carry: Carry, hear: Hear | None = None) -> None:
        self._stages = stages
        self._hear = hear or stages.audio_features
        self._carry = carry

    async def hop(self, window: F32, first_frame: int) -> MotionChunk:
        """Make the motion of the next hop.

        Args:
            window: Samples as `window_of` says.
            first_frame: Index of the hop's first frame; hops are consecutive.
        """
        rows = await self._hear(window, first_frame * ROWS_PER_FRAME)
        chunk, self._carry = await self._stages.motion_diffusion(rows, self._carry)
        return chunk
