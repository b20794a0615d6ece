"""Deployment `MotionDiffusion`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deployments.calls import CallContext, MotionFacts, StageStats
from deployments.config import StageSettings
from deployments.placement import take_place
from deployments.speech_models import load_speech_models
from deployments.stage_worker import StageWorker
from engines.motion_layout import MOTION_DIM
from kernels.errors import LiveAnchorError
from pipeline.motion_diffusion import MotionCarry, MotionItem, initial_carry
from pipeline.types import FEATURE_RATE_HZ, ROWS_PER_FRAME, FeatureRows, MotionChunk

Answer = tuple[MotionChunk, MotionCarry]


class MotionDiffusionReplica:
    """Adds to `pipeline.motion_diffusion`: windows of several sessions in one sampling loop, deadlines, counters, health.

    Keeps nothing of a session: the carry comes with the call and goes back with the answer. Becomes ready only after it has
    really sampled a window.

    Args:
        settings: This stage's own.
    """

    def __init__(self, settings: StageSettings) -> None:
        self._stage = load_speech_models(settings.model, take_place(settings.model))[1]
        self._probe()
        self._worker: StageWorker[MotionItem, Answer] = StageWorker(
            "motion_diffusion", self._stage.steps, lambda answer: len(answer[0].motion), settings
        )

    def facts(self) -> MotionFacts:
        """What a session must know to cut hops."""
        return MotionFacts(self._stage.shape.family, self._stage.hop_frames, self._stage.history_frames)

    async def motion(self, rows: FeatureRows, carry: MotionCarry, context: CallContext) -> Answer:
        """See `pipeline.motion_diffusion.MotionDiffusion.step`."""
        return await self._worker.call(MotionItem(rows, carry), context)

    def stats(self) -> StageStats:
        """Counters of this replica."""
        return self._worker.stats()

    def check_health(self) -> None:
        """See `StageWorker.check`."""
        self._worker.check()

    def _probe(self) -> None:
        rows = np.repeat(self._stage.shape.silence_row[None], self._stage.hop_frames * ROWS_PER_FRAME, axis=0)
        carry = initial_carry(seed=0, history=np.zeros((1, MOTION_DIM), np.float32))
        outcome: Sequence[Answer | LiveAnchorError] = self._stage.steps(
            [MotionItem(FeatureRows(rows, FEATURE_RATE_HZ, 0), carry)]
        )
        if isinstance(outcome[0], LiveAnchorError):
            raise outcome[0]
