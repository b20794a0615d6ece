"""Deployment `Renderer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from deployments.config import RendererSettings
from deployments.graph.batcher import Overlap
from deployments.graph.calls import CallContext, StageStats
from deployments.graph.placement import take_place
from deployments.graph.set_reports import start_reports
from deployments.graph.stage_worker import StageWorker, replica_id
from deployments.graph.start_up import StartUp
from deployments.host.avatars import default_of, open_avatar_store
from deployments.logs import configure_replica_logs
from kernels.errors import LiveAnchorError
from pipeline.bounded_cache import drop_avatar
from pipeline.families import find_family
from pipeline.session.overlaid import OverlaidBatch, PaintedParts
from pipeline.session.overlap import DrawOrder, OverlappedDrawing, OverlappingRenderer
from pipeline.stages import RenderRequest
from pipeline.types import CropBatch, MotionChunk, Nv12RectBatch

SAMPLE_FRAMES: Final = 8
SAMPLE_CHUNKS: Final = 6


class RendererReplica:
    """Adds to a family's stage `renderer`: calls of several sessions in order of their deadlines, avatars, counters, health.

    A family whose chunks can share buckets (`pipeline.session.overlap`) is fed as many as keep its device busy without a pause.
    Holds prepared faces up to a bound in bytes; the router sends an avatar's calls where it is warm. Becomes ready only after it
    has really drawn a frame, of the default presenter (which is drawn into the store where it is missing).

    Args:
        settings: This stage's own.
    """

    def __init__(self, settings: RendererSettings) -> None:
        configure_replica_logs()
        start = StartUp("renderer")
        self._store = open_avatar_store(settings.stores.avatars)
        model = settings.model
        family = find_family(model.family)
        device = take_place(model)
        start.done("place")
        self._stage = family.load_renderer(
            self._store.get, model.weights_dir, device, settings.cache_bytes, model.runtime
        )
        start.done("load")
        self._maker = family.avatar_maker(model.weights_dir)
        self._probe()
        start.done("probe")
        drawing = self._stage.overlapped() if isinstance(self._stage, OverlappingRenderer) else None
        self._worker: StageWorker[DrawOrder, Nv12RectBatch | CropBatch] = StageWorker(
            "renderer",
            self._batch,
            len,
            settings,
            self._probe,
            pipeline=drawing.submit if drawing else None,
            overlap=Overlap(lambda order: len(order.request.motion.motion), drawing.frames_in_work)
            if drawing
            else None,
        )
        self._reports = start_reports(
            "renderer",
            self.stats,
            lambda: self._sample(drawing),
            device == "cuda",
            doubles=family.doubles_in_motion_space,
            most=settings.sessions_per_gpu,
            when_idle=self._worker.when_idle,
        )
        start.done("measure")
        start.ready()

    async def render(self, request: RenderRequest, context: CallContext) -> Nv12RectBatch | PaintedParts:
        """Pictures of one chunk; see `pipeline.family.RendererStage`. What the caller has itself does not travel."""
        batch = await self._worker.call(DrawOrder(request), context)
        assert isinstance(batch, Nv12RectBatch)  # noqa: S101 - narrows the type for the checker
        return batch.parts if isinstance(batch, OverlaidBatch) else batch

    async def crops(self, request: RenderRequest, context: CallContext) -> CropBatch:
        """Face crops of one chunk; see `pipeline.family.RendererStage`."""
        batch = await self._worker.call(DrawOrder(request, crops_only=True), context)
        assert isinstance(batch, CropBatch)  # noqa: S101 - narrows the type for the checker
        return batch

    def stats(self) -> StageStats:
        """Counters of this replica; `warm` lists the prepared avatars."""
        return self._worker.stats(self._stage.warm_avatars())

    async def drop_avatars(self, avatar_ids: list[str]) -> str:
        """Drop what this process keeps of avatars, and answer its id."""
        for avatar_id in avatar_ids:
            drop_avatar(avatar_id)
        return replica_id()

    async def check_health(self) -> None:
        """Tell Ray Serve what `StageWorker.check` finds."""
        await self._worker.check()

    def _batch(self, items: Sequence[DrawOrder]) -> list[Nv12RectBatch | CropBatch | LiveAnchorError]:
        return [self._one(item) for item in items]

    def _one(self, item: DrawOrder) -> Nv12RectBatch | CropBatch | LiveAnchorError:
        try:
            return self._stage.crops(item.request) if item.crops_only else self._stage.render(item.request)
        except LiveAnchorError as error:
            return error

    def _sample(self, drawing: OverlappedDrawing[Any, Nv12RectBatch | CropBatch] | None) -> int:
        """Draw as sessions would have it: several chunks at once where their work overlaps, else one after the other."""
        avatar = default_of(self._store, self._maker)
        motion = MotionChunk(find_family(avatar.family).speaking_motion(avatar, SAMPLE_FRAMES), 0)
        order = DrawOrder(RenderRequest(avatar.avatar_id, motion, None, 25, "bt709"))
        if drawing is None:
            self._stage.render(order.request)
            return SAMPLE_FRAMES
        for future in [drawing.submit(order) for _ in range(SAMPLE_CHUNKS)]:
            future.result()
        return SAMPLE_CHUNKS * SAMPLE_FRAMES

    def _probe(self) -> None:
        """Draw one frame of the default presenter."""
        avatar = default_of(self._store, self._maker)
        motion = find_family(avatar.family).speaking_motion(avatar, 1)
        self._stage.render(RenderRequest(avatar.avatar_id, MotionChunk(motion, 0), None, 25, "bt709"))
