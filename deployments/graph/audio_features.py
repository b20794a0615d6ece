"""Deployment `AudioFeatures`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deployments.config import StageSettings
from deployments.graph.calls import CallContext, StageStats
from deployments.graph.placement import take_place
from deployments.graph.set_reports import SAMPLE_SESSIONS, start_reports
from deployments.graph.stage_worker import StageWorker
from deployments.graph.start_up import StartUp
from deployments.logs import configure_replica_logs
from kernels.arrays import F32
from kernels.errors import LiveAnchorError, ShapeError
from pipeline.families import find_family
from pipeline.stages import AudioFacts
from pipeline.types import FeatureRows

Item = tuple[F32, int]


class AudioFeaturesReplica:
    """Adds to a family's stage `audio_features`: windows of several sessions in one network call, deadlines, counters, health.

    Becomes ready only after it has really encoded a window of silence.

    Args:
        settings: This stage's own.
    """

    def __init__(self, settings: StageSettings) -> None:
        configure_replica_logs()
        start = StartUp("audio_features")
        model = settings.model
        device = take_place(model)
        start.done("place")
        self._stage = find_family(model.family).load_audio(model.weights_dir, device, model.threads, model.runtime)
        start.done("load")
        self._probe()
        start.done("probe")
        self._worker: StageWorker[Item, FeatureRows] = StageWorker(
            "audio_features",
            self._batch,
            self._stage.shape.frames_in,
            settings,
            self._probe,
            several=True,
        )
        self._reports = start_reports(
            "audio_features", self.stats, self._sample, device == "cuda", when_idle=self._worker.when_idle
        )
        start.done("measure")
        start.ready()

    def facts(self) -> AudioFacts:
        """What a session must know to cut windows."""
        shape = self._stage.shape
        return AudioFacts(shape.left_samples, shape.lookahead_samples)

    async def rows(self, window: F32, first_row: int, context: CallContext) -> FeatureRows:
        """Rows of one window; see `pipeline.family.AudioStage`."""
        return await self._worker.call((window, first_row), context)

    def stats(self) -> StageStats:
        """Counters of this replica."""
        return self._worker.stats()

    async def check_health(self) -> None:
        """Tell Ray Serve what `StageWorker.check` finds."""
        await self._worker.check()

    def _probe(self, sessions: int = 1) -> int:
        """Encode a window of silence for so many sessions at once; returns the frames of all of them."""
        silence = np.zeros(self._stage.window_samples, np.float32)
        return sum(self._stage.shape.frames_in(one) for one in self._stage.windows([(silence, 0)] * sessions))

    def _sample(self) -> int:
        return self._probe(SAMPLE_SESSIONS)

    def _batch(self, items: Sequence[Item]) -> list[FeatureRows | LiveAnchorError]:
        results: dict[int, FeatureRows | LiveAnchorError] = {}
        for shape in {window.shape for window, _ in items}:
            group = [i for i, (window, _) in enumerate(items) if window.shape == shape]
            try:
                answers: Sequence[FeatureRows | LiveAnchorError] = self._stage.windows([items[i] for i in group])
            except ShapeError as error:
                answers = [error] * len(group)
            results.update(zip(group, answers, strict=True))
        return [results[i] for i in range(len(items))]
