"""The stages in this process: what a session calls when there is no cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from pipeline.audio_features import CarryError
from pipeline.config import RifeSettings
from pipeline.local_rife import LocalCrops, LocalRife
from pipeline.mini import HOP_CHOICES, load_speech_stages
from pipeline.motion_diffusion import MotionCarry
from pipeline.renderer import Renderer
from pipeline.stages import Carry, CropsInWork, RenderRequest, RifeRequest, StageInfo
from pipeline.tail import DEFAULT_CACHE_BYTES, StillTail
from pipeline.types import F32, Avatar, FeatureRows, MotionChunk, Nv12RectBatch

T = TypeVar("T")


class LocalStages:
    """`Stages` of the family `mini` over two threads: one for features and motion, one for pictures.

    Sets torch to one thread per operation: sums then come out the same on every machine, and the two threads here, plus the
    encoder's, keep two cores busy.

    Args:
        load_avatar: Id -> avatar.
        device: Torch device of all stages.
        cache_bytes: Bound on prepared faces.
        rife: Settings of the interpolator, which is loaded when it is needed.

    Attributes:
        calls: Calls per stage so far.
    """

    def __init__(
        self,
        load_avatar: Callable[[str], Avatar],
        device: str = "cpu",
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        rife: RifeSettings | None = None,
    ) -> None:
        torch.set_num_threads(1)
        self._audio, self._motion = load_speech_stages(device)
        self._renderer = Renderer(load_avatar, device, cache_bytes)
        self._speech_thread = ThreadPoolExecutor(1, thread_name_prefix="speech")
        self._picture_thread = ThreadPoolExecutor(1, thread_name_prefix="picture")
        self._rife = LocalRife(lambda _: StillTail(load_avatar, cache_bytes), rife or RifeSettings(), device)
        self.calls: Counter[str] = Counter()

    @property
    def info(self) -> StageInfo:
        """Facts about `mini`."""
        return StageInfo(
            family=self._motion.shape.family,
            hop_frames=self._motion.hop_frames,
            context_samples=self._audio.shape.left_samples,
            lookahead_samples=self._audio.shape.lookahead_samples,
            history_frames=self._motion.history_frames,
            doubles_in_motion_space=True,
            hop_choices=HOP_CHOICES,
        )

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """See `Stages`."""
        return await self._run("audio_features", self._speech_thread, lambda: self._audio.window(window, first_row))

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """See `Stages`."""
        if not isinstance(carry, MotionCarry):
            raise CarryError("carry", carry.family or type(carry).__name__, self._motion.shape.family)
        return await self._run("motion_diffusion", self._speech_thread, lambda: self._motion.step(rows, carry))

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """See `Stages`."""
        return await self._run("renderer", self._picture_thread, lambda: self._renderer.render(request))

    def crops(self, request: RenderRequest) -> LocalCrops:
        """See `Stages`."""
        return LocalCrops(self._run("renderer", self._picture_thread, lambda: self._renderer.crops(request)))

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """See `Stages`."""
        self.calls["rife"] += 1
        return await self._rife.run(request, crops, before)

    def check_rate(self, fps: float) -> None:
        """Refuse a frame rate that `rife` would have to make, where it cannot; see `LocalRife.check`."""
        self._rife.check(fps)

    def close(self) -> None:
        """End the threads; work that has begun is finished first."""
        self._rife.close()
        self._speech_thread.shutdown()
        self._picture_thread.shutdown()

    async def _run(self, stage: str, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        self.calls[stage] += 1
        return await asyncio.get_running_loop().run_in_executor(thread, work)
