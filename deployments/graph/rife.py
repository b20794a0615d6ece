"""Deployment `Rife`."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from deployments.config import RifeStageSettings
from deployments.graph.calls import CallContext, StageStats
from deployments.graph.placement import take_place
from deployments.graph.set_reports import start_reports
from deployments.graph.stage_worker import StageWorker, replica_id
from deployments.graph.start_up import StartUp
from deployments.host.avatars import open_avatar_store
from deployments.logs import configure_replica_logs
from engines.weights.errors import WeightsError
from kernels.errors import LiveAnchorError
from pipeline.bounded_cache import drop_avatar
from pipeline.families import find_family
from pipeline.rife.access import RifeFacts, network_name, refuse_rate, why_not
from pipeline.rife.local import load_rife
from pipeline.rife.stage import Rife, RifeItem
from pipeline.stages import RifeRequest
from pipeline.types import CropBatch, Nv12RectBatch

_log = structlog.get_logger(__name__)


class RifeReplica:
    """Adds to `pipeline.rife.stage`: chunks of several sessions in one network call, deadlines, counters, health.

    Where it may not interpolate (a CPU, unless the settings allow it) or has no weights, it says so in its facts and refuses calls;
    sessions that do not need it run on. Otherwise it becomes ready only after it has really interpolated a picture.

    Args:
        settings: This stage's own.
    """

    def __init__(self, settings: RifeStageSettings) -> None:
        configure_replica_logs()
        start = StartUp("rife")
        self._stage: Rife | None = None
        device = take_place(settings.model)
        reason = why_not(settings.rife, device)
        if not reason:
            try:
                self._stage = self._load(settings, device)
            except WeightsError as error:
                reason = str(error)
        name = self._stage.network if self._stage is not None else network_name(settings.rife) or ""
        self._facts = RifeFacts(self._stage is not None, reason, name, device)
        start.done("load")
        _log.info("interpolator", interpolates=self._facts.interpolates, network=name, device=device, reason=reason)
        self._worker: StageWorker[RifeItem, Nv12RectBatch] = StageWorker(
            "rife", self._batch, len, settings, self._probe
        )
        on_gpu = self._facts.interpolates and device == "cuda"
        self._reports = start_reports("rife", self.stats, self._sample, on_gpu, when_idle=self._worker.when_idle)
        start.done("measure")
        start.ready()

    def facts(self) -> RifeFacts:
        """Which network runs, or why none does."""
        return self._facts

    async def pictures(
        self, request: RifeRequest, crops: CropBatch, before: CropBatch | None, context: CallContext
    ) -> Nv12RectBatch:
        """Implement `pipeline.stages.Stages.rife`.

        Raises:
            InvalidInputError: Nothing is interpolated here; see `facts`.
        """
        if self._stage is None:
            raise refuse_rate(request.fps, self._facts.reason)
        return await self._worker.call(RifeItem(request, crops, before), context)

    def stats(self) -> StageStats:
        """Counters of this replica; `warm` names the network."""
        return self._worker.stats((self._facts.network,) if self._facts.interpolates else ())

    async def drop_avatars(self, avatar_ids: list[str]) -> str:
        """Drop what this process keeps of avatars, and answer its id."""
        for avatar_id in avatar_ids:
            drop_avatar(avatar_id)
        return replica_id()

    async def check_health(self) -> None:
        """Tell Ray Serve what `StageWorker.check` finds."""
        await self._worker.check()

    def _load(self, settings: RifeStageSettings, device: str) -> Rife:
        family, store = find_family(settings.model.family), open_avatar_store(settings.stores.avatars)
        stage = load_rife(settings.rife, lambda network: family.tail(store.get, network, settings.cache_bytes), device)
        stage.probe()
        return stage

    def _sample(self) -> int:
        self._probe()
        return 1

    def _probe(self) -> None:
        if self._stage is not None:
            self._stage.probe()

    def _batch(self, items: Sequence[RifeItem]) -> list[Nv12RectBatch | LiveAnchorError]:
        assert self._stage is not None  # noqa: S101 - no item gets here without one
        return self._stage.run(items)
