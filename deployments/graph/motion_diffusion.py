"""Deployment `MotionDiffusion`."""

from __future__ import annotations

from deployments.config import StageSettings
from deployments.graph.calls import CallContext, StageStats
from deployments.graph.placement import take_place
from deployments.graph.set_reports import SAMPLE_SESSIONS, start_reports
from deployments.graph.stage_worker import StageWorker
from deployments.graph.start_up import StartUp
from deployments.logs import configure_replica_logs
from pipeline.families import find_family
from pipeline.stages import AudioFacts, Carry, MotionFacts, MotionItem
from pipeline.types import FeatureRows, MotionChunk

Answer = tuple[MotionChunk, Carry]
Item = MotionItem[Carry]


class MotionDiffusionReplica:
    """Adds to a family's stage `motion_diffusion`: windows of several sessions in one sampling loop, deadlines, counters, health.

    Keeps nothing of a session: the carry comes with the call and goes back with the answer. Becomes ready only after it has
    really sampled a window.

    Args:
        settings: This stage's own.
    """

    def __init__(self, settings: StageSettings) -> None:
        configure_replica_logs()
        start = StartUp("motion_diffusion")
        model = settings.model
        device = take_place(model)
        start.done("place")
        family = find_family(model.family)
        self._stage = family.load_motion(model.weights_dir, device, model.runtime)
        self._longest_hop = family.info(AudioFacts(0, 0), self.facts()).longest_hop_frames
        start.done("load")
        self._stage.probe()
        start.done("probe")
        self._worker: StageWorker[Item, Answer] = StageWorker(
            "motion_diffusion", self._stage.steps, lambda answer: len(answer[0].motion), settings, self._stage.probe
        )
        self._reports = start_reports(
            "motion_diffusion", self.stats, self._sample, device == "cuda", when_idle=self._worker.when_idle
        )
        start.done("measure")
        start.ready()

    def facts(self) -> MotionFacts:
        """What a session must know to cut hops."""
        return MotionFacts(self._stage.hop_frames, self._stage.history_frames)

    async def motion(self, rows: FeatureRows, carry: Carry, context: CallContext) -> Answer:
        """Make one hop of motion and the carry after it, as `pipeline.family.MotionStage` says."""
        return await self._worker.call(MotionItem(rows, carry), context)

    def stats(self) -> StageStats:
        """Counters of this replica."""
        return self._worker.stats()

    def _sample(self) -> int:
        """Windows in the hops of crowded sets: only those decide how many sessions fit."""
        self._stage.probe(SAMPLE_SESSIONS)
        return SAMPLE_SESSIONS * self._longest_hop

    async def check_health(self) -> None:
        """Tell Ray Serve what `StageWorker.check` finds."""
        await self._worker.check()
