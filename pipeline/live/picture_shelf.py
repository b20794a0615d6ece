"""Pictures that were drawn and are not due yet, and the calls that draw them: few at a time, and none for what is past."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.config import SessionSettings
from pipeline.live.grid import MediaGrid
from pipeline.session.drawing import ChunkDrawer
from pipeline.stages import Stages
from pipeline.types import SAMPLES_PER_FRAME, MotionChunk, Nv12Rect, Nv12RectBatch

_LEARNING: Final = 0.25
_HIGHEST_COST: Final = 2 * SAMPLES_PER_FRAME


@dataclass
class _Call:
    """A call in work.

    Attributes:
        first: First tick whose picture it makes.
        stop: The picture of this tick and later ones are not wanted.
        frames: Frames of motion.
        begun: Position of the media clock when it was made.
    """

    first: int
    stop: int
    frames: int
    begun: int


class PictureShelf:
    """Has the pictures of one session drawn and keeps them until they are due.

    Args:
        stages: The stages that draw pictures.
        avatar_id: Id of the avatar whose face is drawn.
        picture: Frame rate, colour, calls in flight.
        chunk_frames: See below.
        grid: Ticks of the session.
        now: Gives the position of the media clock in samples.
        on_ready: Called whenever pictures have come.

    Attributes:
        chunk_frames: Frames of motion per call, from the next call on.
        origin: Frame at which the idle loop began; a template video's frames are counted from there.
        due: The next tick; pictures for earlier ones are not wanted.
        dropped: Number of pictures that came too late, or were not drawn because they would have come too late.
    """

    def __init__(
        self,
        stages: Stages,
        avatar_id: str,
        picture: SessionSettings,
        chunk_frames: int,
        grid: MediaGrid,
        now: Callable[[], int],
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._stages = stages
        self._avatar_id = avatar_id
        self._picture = picture
        self.chunk_frames = chunk_frames
        self._per_frame = grid.ticks_per_frame
        self._now = now
        self._on_ready = on_ready
        self._frame_cost = 0.0
        self._last_answer = 0
        self._ready: dict[int, Nv12Rect] = {}
        self._tasks: dict[asyncio.Task[None], _Call] = {}
        self._drawer: ChunkDrawer | None = None
        self._pending: F32 | None = None
        self._next_frame = 0
        self._covered = -1
        self._epoch = 0
        self.origin = 0
        self.due = 0
        self.dropped = 0

    @property
    def in_flight(self) -> int:
        """Number of calls that have not answered."""
        return len(self._tasks)

    def __len__(self) -> int:
        """Number of pictures that wait."""
        return len(self._ready)

    def take(self, tick: int) -> Nv12Rect | None:
        """The picture of a tick, if it is here; ticks are taken in order."""
        self.due = tick + 1
        return self._ready.pop(tick, None)

    def clear(self, epoch: int) -> list[asyncio.Task[None]]:
        """Forget all pictures, cancel all calls and begin the epoch `epoch`; returns the cancelled calls, to be waited for."""
        given_up = list(self._tasks)
        for task in given_up:
            task.cancel()
        self._ready.clear()
        self._drawer = self._pending = None
        self._epoch = epoch
        return given_up

    def cut(self, frame: int) -> None:
        """Drop what was added for `frame` and later ones: other motion will be added in its place."""
        tick = frame * self._per_frame
        self._ready = {at: rect for at, rect in self._ready.items() if at < tick}
        for call in self._tasks.values():
            call.stop = min(call.stop, tick)
        self._drawer = None
        if self._pending is not None and self._next_frame != frame:
            self._pending = None
        self._next_frame = frame

    async def add(self, motion: F32, first_frame: int) -> None:
        """Draw frames (n, 265); returns when their calls are under way, at most `credits` at a time.

        Frames that do not follow on the ones before begin anew. Where the stage wants the frame after a chunk, the last frame waits
        for the next call of `add` or `finish`.
        """
        if self._pending is not None and first_frame != self._next_frame:
            await self.finish(None)
        if first_frame != self._next_frame:
            self._drawer = None
        self._next_frame = first_frame + len(motion)
        if self._pending is not None:
            motion, first_frame = np.concatenate([self._pending, motion]), first_frame - len(self._pending)
            self._pending = None
        if self._open_drawer().needs_following:
            motion, self._pending = motion[:-1], motion[-1:]
            after: F32 | None = self._pending[0]
        else:
            after = None
        await self._draw(motion, first_frame, after)

    async def finish(self, following: F32 | None) -> None:
        """End the stretch: draw what waits; `following` (265,) is the motion that is shown after it, None for a hold."""
        pending, self._pending = self._pending, None
        if pending is not None:
            await self._draw(pending, self._next_frame - len(pending), following)

    def _open_drawer(self) -> ChunkDrawer:
        if self._drawer is None:
            self._drawer = ChunkDrawer(self._stages, self._avatar_id, self._picture, self._epoch)
            self._covered = -1
        return self._drawer

    async def _draw(self, motion: F32, first_frame: int, after: F32 | None) -> None:
        for start in range(0, len(motion), self.chunk_frames):
            while len(self._tasks) >= self._picture.credits:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            part, first = motion[start : start + self.chunk_frames], first_frame + start
            late = self._too_late(first, len(part))
            if late:
                self.dropped += late * self._per_frame
                self._drawer = None
                part, first = part[late:], first + late
            if not len(part):
                continue
            end = start + self.chunk_frames
            following = motion[end] if end < len(motion) else after
            self._begin(part, first, following)

    def _too_late(self, first: int, count: int) -> int:
        """How many of the first frames of a chunk would come too late, by what calls have cost; they are not drawn."""
        passed = min(max(self.due // self._per_frame - first, 0), count)
        if passed == count:
            return passed
        now, waiting = self._now(), sum(call.frames for call in self._tasks.values())
        for skipped in range(passed, count):
            ready = now + self._frame_cost * (waiting + count - skipped)
            if (first + skipped) * SAMPLES_PER_FRAME >= ready:
                return skipped
        return count if waiting else count - 1

    def _answered(self, call: _Call) -> None:
        """Learn from a call what a frame costs."""
        now = self._now()
        taken = (now - max(call.begun, self._last_answer)) / call.frames
        self._last_answer = now
        learning = _LEARNING if self._frame_cost else 1.0
        self._frame_cost += learning * (min(taken, _HIGHEST_COST) - self._frame_cost)

    def _begin(self, motion: F32, first_frame: int, following: F32 | None) -> None:
        drawer = self._open_drawer()
        first, last = first_frame * self._per_frame, (first_frame + len(motion)) * self._per_frame
        if drawer.through_rife:  # from the chunk before, up to this one's last frame
            first = self._covered + 1 if self._covered >= 0 else first
            last = last - self._per_frame + 1
        self._covered = last - 1
        chunk = MotionChunk(motion, max(first_frame - self.origin, 0))
        drawn = drawer.draw(chunk, following if drawer.needs_following else None)
        call = _Call(first, last, len(motion), self._now())
        task = asyncio.create_task(self._collect(drawn, call))
        self._tasks[task] = call
        task.add_done_callback(self._tasks.pop)

    async def _collect(self, drawn: asyncio.Task[Nv12RectBatch], call: _Call) -> None:
        try:
            batch = await drawn
        except LiveAnchorError:  # counted where the call was made; the picture holds
            return
        self._answered(call)
        for i, tick in enumerate(range(call.first, min(call.stop, call.first + len(batch)))):
            if tick < self.due:
                self.dropped += 1
            else:
                self._ready[tick] = batch.frame(i)
        self._on_ready()
