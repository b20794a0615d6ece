"""From motion to pictures: one call to the renderer where it raises the frame rate itself, else crops that go on to `rife`."""

from __future__ import annotations

import asyncio

from kernels.arrays import F32
from pipeline.clock import frames_before, frames_until
from pipeline.config import SessionSettings
from pipeline.stages import CropsInWork, RenderRequest, RifeRequest, StageInfo, Stages
from pipeline.types import MOTION_FPS, MotionChunk, Nv12RectBatch


def needs_rife(info: StageInfo, settings: SessionSettings) -> bool:
    """Whether sessions with these settings call the stage `rife`."""
    return settings.fps != MOTION_FPS and (settings.interpolate == "rife" or not info.doubles_in_motion_space)


class ChunkDrawer:
    """Draws the consecutive chunks of one session. All it remembers is which crops came last, un-awaited.

    Through `rife`, a chunk gives the video frames after the chunk before it up to its own last frame of motion; the very first one
    begins at its first frame. What is left after a clip's last frame of motion is `closing_frames` repeats of the last picture.

    Args:
        stages: The stage calls.
        avatar_id: Id of the avatar whose face is drawn; another avatar gets another drawer.
        settings: Frame rate, colour, who interpolates.
        epoch: Session epoch.
    """

    def __init__(self, stages: Stages, avatar_id: str, settings: SessionSettings, epoch: int = 0) -> None:
        self._stages = stages
        self._avatar_id = avatar_id
        self._settings = settings
        self._epoch = epoch
        self._through_rife = needs_rife(stages.info, settings)
        self._before: CropsInWork | None = None

    @property
    def through_rife(self) -> bool:
        """Whether pictures are interpolated by `rife`."""
        return self._through_rife

    @property
    def needs_following(self) -> bool:
        """Whether `draw` wants the frame of motion after the chunk."""
        return self._settings.fps != MOTION_FPS and not self._through_rife

    def interrupt(self, epoch: int) -> None:
        """Begin a new epoch: its pictures are not blended with those before."""
        self._epoch = epoch

    def draw(self, chunk: MotionChunk, following: F32 | None) -> asyncio.Task[Nv12RectBatch]:
        """Begin a chunk; several may be in work. Cancelling the task cancels its stage calls."""
        settings = self._settings
        request = RenderRequest(self._avatar_id, chunk, following, settings.fps, settings.colour, self._epoch)
        if not self._through_rife:
            return asyncio.create_task(self._render(request))
        before, crops = self._before, self._stages.crops(request)
        self._before = crops
        return asyncio.create_task(self._double(RifeRequest(settings.fps, settings.colour), crops, before))

    def closing_frames(self, last_frame: int) -> int:
        """Video frames that a clip still lacks after its last frame of motion, when `rife` drew it."""
        if not self._through_rife:
            return 0
        return frames_before(last_frame + 1, self._settings.fps) - frames_until(last_frame, self._settings.fps)

    async def _render(self, request: RenderRequest) -> Nv12RectBatch:
        return await self._stages.renderer(request)

    async def _double(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        try:
            return await self._stages.rife(request, crops, before)
        except asyncio.CancelledError:
            crops.cancel()
            if self._before is crops:
                self._before = None
            raise


def repeat_last(batch: Nv12RectBatch, count: int) -> Nv12RectBatch:
    """`count` copies of the last picture of a batch."""
    return Nv12RectBatch(
        batch.rect, batch.y_planes[-1:].repeat(count, axis=0), batch.uv_planes[-1:].repeat(count, axis=0)
    )
