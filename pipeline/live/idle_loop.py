"""The face that listens: a loop of pictures per avatar, drawn once and kept in memory for all sessions of a replica."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.tensor_file import held_bytes
from pipeline.bounded_cache import BoundedCache
from pipeline.config import SessionSettings
from pipeline.live.grid import MediaGrid
from pipeline.live.loop_choice import mirrored
from pipeline.live.settings import LiveSettings
from pipeline.session.behaviour import MotionBehaviour, behaviour_of
from pipeline.session.drawing import ChunkDrawer
from pipeline.session.idle_fade import POSE_FADE_FRAMES, IdleFade
from pipeline.stages import Stages
from pipeline.types import Avatar, MotionChunk, Nv12Rect, Nv12RectBatch

_CHUNK: Final = 4
"""Frames per render call: a loop that is being drawn must not keep a speaker waiting."""
_MOTION_BYTES: Final = 16 * 2**20
_POSE_WEIGHT: Final = 0.02
"""Weight of a pose logit when poses are compared; an expression coordinate that moves the mouth weighs 1."""


@dataclass(frozen=True)
class LoopPictures:
    """Pictures of a loop, at the session's rate.

    Attributes:
        loop: The pictures of the loop's places, from the first to the last.
        entry: The pictures that lead from the still picture to place 0; empty for a template video.
    """

    loop: tuple[Nv12Rect, ...]
    entry: tuple[Nv12Rect, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all planes that lie in memory; a clip's own pictures lie in its bundle, which is mapped."""
        shown = [one for rect in (*self.loop, *self.entry) for one in (rect, rect.over) if one is not None]
        return sum(held_bytes(one.y_plane) + held_bytes(one.uv_plane) for one in shown)


@dataclass
class IdleLoop:
    """Gives the idle motion and pictures of one avatar at one frame rate and colour.

    Attributes:
        motion: float32 (n, 265), motion of the loop's frames, which are played to and fro.
        entry_motion: float32 (m, 265), frames that lead from the still picture into the loop.
        rest: The still picture, which is shown before anything is drawn.
        rest_motion: float32 (265,), motion of the still picture.
        mouth: Columns of the motion that move the mouth.
        grid: Ticks at the loop's frame rate.
        ends_twice: Whether the end frames are shown twice where the loop turns.
        pictures: Pictures of the loop; None until they are drawn.
    """

    motion: F32
    entry_motion: F32
    rest: Nv12Rect
    rest_motion: F32
    mouth: slice
    grid: MediaGrid
    ends_twice: bool = True
    pictures: LoopPictures | None = None

    def motion_at(self, frame: int) -> F32:
        """Motion (265,) of a frame since the loop began; negative ones lead into it."""
        if -len(self.entry_motion) <= frame < 0:
            entering: F32 = self.entry_motion[frame]
            return entering
        motion: F32 = self.motion[mirrored(frame, len(self.motion), ends_twice=self.ends_twice)]
        return motion

    def picture(self, tick: int) -> Nv12Rect:
        """The picture of a tick since the loop began; negative ones lead into it. The still one while nothing is drawn."""
        pictures = self.pictures
        if pictures is None or (tick < 0 and not pictures.entry):
            return self.rest
        if tick < 0:
            return pictures.entry[max(len(pictures.entry) + tick, 0)]
        return pictures.loop[mirrored(tick, len(self.motion), self.grid.ticks_per_frame, ends_twice=self.ends_twice)]

    def nearest(self, pose: F32) -> int:
        """The frame of the loop, played forwards, whose motion is most like `pose`, float32 (265,)."""
        weights = np.full(len(pose), _POSE_WEIGHT, np.float32)
        weights[self.mouth] = 1.0
        return int(np.argmin(np.square((self.motion - pose) * weights).sum(axis=1)))


class IdleLoops:
    """Keeps the most recently used loops of one replica, bounded in bytes; a session keeps the one that it shows.

    Args:
        stages: The stages that draw the loops; their calls count for no session.
        settings: Length of a loop in frames, bound on memory in bytes.
    """

    def __init__(self, stages: Stages, settings: LiveSettings) -> None:
        self._stages = stages
        self._frames = settings.idle_loop_frames
        self._loops: BoundedCache[tuple[str, float, str], LoopPictures] = BoundedCache(
            settings.idle_cache_bytes, lambda pictures: pictures.size_bytes
        )
        self._motion: BoundedCache[str, F32] = BoundedCache(_MOTION_BYTES, lambda motion: motion.nbytes)
        self._drawing: dict[tuple[str, float, str], asyncio.Task[LoopPictures]] = {}

    def open(self, avatar: Avatar, picture: SessionSettings, behaviour: MotionBehaviour | None = None) -> IdleLoop:
        """The loop as it is now: with pictures where they were drawn, else the still picture alone.

        Args:
            avatar: The avatar that idles.
            picture: Frame rate and colour.
            behaviour: What `behaviour_of(avatar)` answers, where the caller has it already; None asks again.

        Raises:
            InvalidInputError: Live sessions cannot have this frame rate.
        """
        behaviour = behaviour or behaviour_of(avatar)
        rect = avatar.rect
        still = avatar.canvas_rgb[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
        y_plane, uv_plane = rgb_to_nv12(np.ascontiguousarray(still), colour=picture.colour)
        key = (avatar.avatar_id, picture.fps, picture.colour)
        motion = self._motion_of(avatar, behaviour)
        rest = behaviour.rest()
        before = np.repeat(motion[:1], 0 if behaviour.template_frames else POSE_FADE_FRAMES, axis=0)
        return IdleLoop(
            motion=motion,
            entry_motion=IdleFade.from_pose(rest, motion[0], 0, behaviour.mouth).apply(before, 0),
            rest=Nv12Rect(rect.x, rect.y, rect.w, rect.h, y_plane, uv_plane),
            rest_motion=rest,
            mouth=behaviour.mouth,
            grid=MediaGrid(int(picture.fps)),
            ends_twice=behaviour.ends_twice,
            pictures=self._loops.find(key),
        )

    async def warm(self, avatar: Avatar, picture: SessionSettings | None = None) -> None:
        """Have an avatar's pictures drawn where they are not here; calls at the same time share one drawing.

        Raises:
            LiveAnchorError: A stage failed.
        """
        picture = picture or SessionSettings()
        behaviour = await asyncio.to_thread(behaviour_of, avatar)
        await asyncio.to_thread(self._motion_of, avatar, behaviour)
        await self.draw(self.open(avatar, picture, behaviour), avatar, picture)

    async def draw(self, loop: IdleLoop, avatar: Avatar, picture: SessionSettings) -> None:
        """Give a loop its pictures, from memory or drawn now. Cancelling the call does not stop drawing that others wait for.

        Raises:
            LiveAnchorError: A stage failed.
        """
        key = (avatar.avatar_id, picture.fps, picture.colour)
        loop.pictures = loop.pictures or self._loops.find(key)
        if loop.pictures is not None:
            return
        if key not in self._drawing:
            task = asyncio.create_task(self._draw(loop, avatar.avatar_id, picture))
            self._drawing[key] = task
            task.add_done_callback(lambda done: self._keep(key, done))
        loop.pictures = await asyncio.shield(self._drawing[key])

    async def close(self) -> None:
        """Stop drawing."""
        for task in (tasks := list(self._drawing.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _motion_of(self, avatar: Avatar, behaviour: MotionBehaviour) -> F32:
        seed = int(avatar.avatar_id[:8], 16)
        return self._motion.get_or_build(avatar.avatar_id, lambda: behaviour.loop(seed, self._frames))

    def _keep(self, key: tuple[str, float, str], done: asyncio.Task[LoopPictures]) -> None:
        self._drawing.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            self._loops.get_or_build(key, done.result)

    async def _draw(self, loop: IdleLoop, avatar_id: str, picture: SessionSettings) -> LoopPictures:
        per_frame = loop.grid.ticks_per_frame
        entry = await self._rects(loop.entry_motion, loop.motion[0], avatar_id, picture)
        rects = await self._rects(loop.motion, None, avatar_id, picture)
        return LoopPictures(rects[: per_frame * (len(loop.motion) - 1) + 1], entry)

    async def _rects(
        self, motion: F32, following: F32 | None, avatar_id: str, picture: SessionSettings
    ) -> tuple[Nv12Rect, ...]:
        drawer = ChunkDrawer(self._stages, avatar_id, picture)
        batches: list[Nv12RectBatch] = []
        for start in range(0, len(motion), _CHUNK):
            chunk = MotionChunk(motion[start : start + _CHUNK], start)
            after = motion[start + _CHUNK] if start + _CHUNK < len(motion) else following
            batch = await drawer.draw(chunk, after if drawer.needs_following else None)
            # copied: what a loop keeps must not pin the memory that calls are answered through
            batches.append(batch.kept())
        return tuple(batch.frame(i) for batch in batches for i in range(len(batch)))
