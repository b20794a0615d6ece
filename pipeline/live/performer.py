"""What the face of a live session does: it listens in its loop, speaks from the pose it shows, and goes back without a jump.

Motion is decided frame by frame, a little ahead of the media clock and never behind it. One task does the work; it is thrown away
at an interruption, and a new one goes on from the pose that is shown.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.live.grid import frame_from, frame_of, samples_of_ms
from pipeline.live.idle_loop import IdleLoop
from pipeline.live.picture_shelf import PictureShelf
from pipeline.live.speech_scan import SpeechScan
from pipeline.live.stage_meter import MeteredStages
from pipeline.live.timeline import Timeline
from pipeline.session.behaviour import MotionBehaviour
from pipeline.session.idle_fade import POSE_FADE_FRAMES, IdleFade
from pipeline.session.spoken_motion import SpokenMotion, set_up, window_of
from pipeline.stages import Carry
from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, Nv12Rect

PREROLL_FRAMES: Final = 3
"""The mouth begins to move before the sound: as many frames as the encoder's look-ahead touches."""
AHEAD: Final = samples_of_ms(400)
"""Motion is made at most so far ahead of the media clock, so that an interruption wastes little."""
FADE_AHEAD: Final = samples_of_ms(240)
LATE: Final = samples_of_ms(200)
"""Speech that is further behind than this starts anew at the present."""
BACK_OFF: Final = samples_of_ms(200)
LONGEST_HOLD_S: Final = 1.0
_FADE_CHUNK: Final = 4
_KEPT_FRAMES: Final = 64
_HOLD_AT_INTERRUPTION: Final = (2, 6)
"""Frames that a picture is held at an interruption, at least and at most, until the way back is drawn."""


class Phase(StrEnum):
    """What the motion is made of."""

    LOOP = "loop"
    SPEECH = "speech"
    FADE = "fade"


@dataclass(frozen=True)
class Cadence:
    """How speech is cut into work.

    Attributes:
        hop_frames: New frames per motion window.
        gate_frames: Whole frames after a hop that decide whether someone speaks.
        margin: Samples of time kept for computing.
    """

    hop_frames: int
    gate_frames: int
    margin: int


class Performer:
    """One session's.

    Args:
        stages: Make motion.
        loop: How the face idles.
        behaviour: How it begins to speak.
        timeline: What will be heard.
        scan: Where somebody speaks.
        shelf: Draws.
        cadence: How speech is cut.
        seed: Of the session.
        more_may_come: Whether samples may still be written where the timeline ends now.
        now: Position of the media clock in samples.
    """

    def __init__(
        self,
        stages: MeteredStages,
        loop: IdleLoop,
        behaviour: MotionBehaviour,
        timeline: Timeline,
        scan: SpeechScan,
        shelf: PictureShelf,
        cadence: Cadence,
        seed: int,
        more_may_come: Callable[[], bool],
        now: Callable[[], int],
    ) -> None:
        self._stages = stages
        self._info = stages.info
        self._loop = loop
        self._behaviour = behaviour
        self._timeline = timeline
        self._scan = scan
        self._shelf = shelf
        self._cadence = cadence
        self._seed = seed
        self._more_may_come = more_may_come
        self._now = now
        own_hop = cadence.hop_frames == self._info.hop_frames
        self._chosen_hop = 0 if own_hop else cadence.hop_frames
        self._history_frames = self._info.history_frames + self._info.hop_frames - cadence.hop_frames
        self._per_frame = loop.grid.ticks_per_frame
        self._score: dict[int, F32] = {}
        self._loop_start = 0
        self._resting = True
        self._phase = Phase.LOOP
        self._next = 0
        self._handled = 0
        self._owned: tuple[int, float] | None = None
        self._tentative = False
        self._fade: IdleFade | None = None
        self._fade_end = 0
        self._spoken: SpokenMotion | None = None
        self._prepared: Carry | None = None
        self._retry_at = 0
        self._epoch = 0
        self._shown = 0
        self._held = 0
        self._calm_until = 0
        self._wake = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._over: set[asyncio.Task[None]] = set()

    @property
    def phase(self) -> Phase:
        """What motion is made of now."""
        return self._phase

    @property
    def worker(self) -> asyncio.Task[None] | None:
        """The task that does the work."""
        return self._worker

    def start(self) -> None:
        """Begin to work."""
        self._worker = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Give up all work and wait for its end."""
        tasks = [*self._shelf.clear(self._epoch), *self._over]
        if self._worker is not None:
            self._worker.cancel()
            tasks.append(self._worker)
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """There may be work."""
        self._wake.set()

    def motion_at(self, frame: int) -> F32:
        """Motion (265,) of a frame, as far as it is decided; of the loop beyond."""
        decided = self._score.get(frame)
        return self._idle_at(frame) if decided is None else decided

    def take(self, tick: int) -> tuple[Nv12Rect | None, bool]:
        """The picture of a tick; ticks are taken in order.

        Returns:
            The picture, None to hold the one before, and whether one was due that had not come.
        """
        frame = tick // self._per_frame
        if self._phase is not Phase.LOOP:
            self._wake.set()
        self._enter_loop(frame)
        rect = self._shelf.take(tick)
        if rect is not None:
            self._tentative = False
            self._shown, self._held = frame, 0
            return rect, False
        if self._owns(frame):
            self._held += 1
            if self._held < LONGEST_HOLD_S * self._loop.grid.fps:
                return None, frame >= self._calm_until
            self._let_go(frame)
        self._shown, self._held = frame, 0
        return self._loop.picture(tick - self._loop_start * self._per_frame), False

    def interrupt(self, epoch: int, tick: int) -> None:
        """Stop speaking at once: all work is given up, and the face returns to its loop from the pose that `tick` finds."""
        self._epoch = epoch
        frame = tick // self._per_frame
        moving = self._phase is not Phase.LOOP
        pose = self.motion_at(self._shown)
        self._drop_work()
        self._scan.reset(frame)
        self._handled = frame
        if not moving:
            return
        if self._phase is Phase.SPEECH and not self._owns(frame):  # it was about to begin
            self._phase, self._owned = Phase.LOOP, None
            self._score = {at: motion for at, motion in self._score.items() if at < frame}
            self._next = frame
            return
        least, most = _HOLD_AT_INTERRUPTION
        wait = math.ceil(self._stages.chain_s() * MOTION_FPS)
        first = frame + min(max(wait, least), most)
        for held in range(self._shown + 1, first):
            self._score[held] = pose
        self._calm_until = first
        self._owned = (min(frame, self._owned[0] if self._owned else frame), math.inf)
        self._begin_fade(first)

    def restart(self) -> None:
        """Give up all work and go on at the present: a stage does not answer."""
        self._drop_work()
        if self._phase is Phase.SPEECH:
            self._retry_at = self._now() + BACK_OFF
            self._spoken = None
            self._next = 0

    def _drop_work(self) -> None:
        for task in self._shelf.clear(self._epoch):
            self._over.add(task)
            task.add_done_callback(self._over.discard)
        self._spoken = None
        if self._worker is not None:
            worker = self._worker
            worker.cancel()
            self._over.add(worker)
            worker.add_done_callback(self._over.discard)
            self.start()

    async def _work(self) -> None:
        if self._info.sets_up and self._prepared is None:
            await self._set_up()
        while True:
            self._wake.clear()
            if not await self._step():
                await self._wake.wait()

    async def _set_up(self) -> None:
        history = np.stack([self._loop.motion_at(0)] * self._history_frames)
        carry = self._behaviour.start(self._seed, history, 0, self._epoch, None, self._chosen_hop)
        try:
            self._prepared = await set_up(self._stages, carry)
        except LiveAnchorError:  # counted; the first call of speech does it then
            return

    async def _step(self) -> bool:
        """Do the next piece of work; False when there is none now."""
        try:
            if self._phase is Phase.LOOP:
                return self._watch()
            if self._phase is Phase.FADE:
                return await self._fade_on()
            return await self._speak_on()
        except LiveAnchorError:  # counted where the call was made; the picture holds
            self._spoken = None
            self._retry_at = self._now() + BACK_OFF
            return False

    def _watch(self) -> bool:
        """In the loop: look out for speech."""
        onset = self._onset()
        if onset is not None:
            self._begin_speech(onset)
        return onset is not None

    async def _speak_on(self) -> bool:
        now, cadence = self._now(), self._cadence
        if now < self._retry_at:
            return False
        if self._next * SAMPLES_PER_FRAME < now - LATE:
            self._begin_speech(self._soonest())
        first = self._next
        start = first * SAMPLES_PER_FRAME
        if start > now + AHEAD:
            return False
        ahead = max(self._info.lookahead_samples, cadence.gate_frames * SAMPLES_PER_FRAME)
        here = self._known(now) >= start + cadence.hop_frames * SAMPLES_PER_FRAME + ahead
        if not here and now + cadence.margin // 2 < start:
            return False
        until = first + cadence.hop_frames + cadence.gate_frames
        self._scan.look(until, 0)
        if not self._scan.any_speech(first, until):
            self._begin_fade(first)
            return True
        if self._spoken is None:
            history = np.stack([self.motion_at(frame) for frame in range(first - self._history_frames, first)])
            carry = self._behaviour.start(self._seed, history, first, self._epoch, self._prepared, self._chosen_hop)
            self._spoken = SpokenMotion(self._stages, carry)
        window = self._timeline.read(*window_of(self._info, first, cadence.hop_frames))
        chunk = await self._spoken.hop(window, first)
        await self._keep(chunk.motion, first)
        return True

    async def _fade_on(self) -> bool:
        first, now = self._next, self._now()
        fade = self._fade
        if fade is None or first >= self._fade_end:
            await self._shelf.finish(self._idle_at(first))
            self._phase = Phase.LOOP
            if self._owned is not None:
                self._owned = (self._owned[0], self._fade_end)
            return True
        onset = self._onset()
        if onset is not None and onset <= first:
            self._begin_speech(onset)
            return True
        if first * SAMPLES_PER_FRAME > now + FADE_AHEAD:
            return False
        stop = min(first + _FADE_CHUNK, self._fade_end if onset is None else min(onset, self._fade_end))
        idle = np.stack([self._idle_at(frame) for frame in range(first, stop)])
        await self._keep(fade.apply(idle, first), first)
        return True

    async def _keep(self, motion: F32, first: int) -> None:
        """Take decided motion and have it drawn."""
        self._next = first + len(motion)
        for i, row in enumerate(motion):
            self._score[first + i] = row
        for frame in [frame for frame in self._score if frame < first - _KEPT_FRAMES]:
            del self._score[frame]
        await self._shelf.add(motion, first)

    def _begin_speech(self, first: int) -> None:
        """Speech starts at a frame, from what is shown before it; what was decided for later is forgotten."""
        if first < self._next:
            self._shelf.cut(first)
            self._score = {at: motion for at, motion in self._score.items() if at < first}
        if self._owned is not None and self._shown < first and self._owns(first - 1):
            shown = self.motion_at(self._shown)  # held, if nothing newer was drawn
            if self._next < first:
                self._score.update(dict.fromkeys(range(self._shown + 1, first), shown))
        self._phase = Phase.SPEECH
        self._spoken = self._fade = None
        self._owned = (self._owned[0] if self._owned is not None and self._owns(first - 1) else first, math.inf)
        self._next = first

    def _begin_fade(self, first: int) -> None:
        """Go back into the loop from the pose before a frame."""
        self._fade = IdleFade.from_pose(self.motion_at(first - 1), self._idle_at(first - 1), first)
        self._fade_end = first + POSE_FADE_FRAMES
        self._phase = Phase.FADE
        self._spoken = None
        self._next = self._handled = first
        if self._tentative:  # no picture of this speech was ever seen: the loop is what is shown
            self._phase, self._owned = Phase.LOOP, None
            self._score.clear()

    def _let_go(self, frame: int) -> None:
        """Nothing has come for too long: show the loop, from where it is most like the picture that was held."""
        self._loop_start = frame - self._loop.nearest(self.motion_at(self._shown))
        self._shelf.origin = self._loop_start
        self._score.clear()
        self._tentative = True
        if self._phase is Phase.FADE:
            self._phase, self._owned = Phase.LOOP, None

    def _enter_loop(self, frame: int) -> None:
        if self._resting and self._loop.pictures is not None and self._phase is Phase.LOOP and not self._owns(frame):
            self._resting = False
            entering = frame > 0 and bool(self._loop.pictures.entry)
            self._loop_start = frame + (len(self._loop.entry_motion) if entering else 0)
            self._shelf.origin = self._loop_start

    def _owns(self, frame: int) -> bool:
        return self._owned is not None and not self._tentative and self._owned[0] <= frame < self._owned[1]

    def _idle_at(self, frame: int) -> F32:
        return self._loop.rest_motion if self._resting else self._loop.motion_at(frame - self._loop_start)

    def _soonest(self) -> int:
        """The first frame that can still be drawn in time."""
        chain = int(min(self._stages.chain_s(), LONGEST_HOLD_S) * SAMPLE_RATE_HZ)
        return frame_from(self._now() + max(chain, SAMPLES_PER_FRAME))

    def _known(self, now: int) -> int:
        """Position up to which it is certain what will be heard."""
        end = self._timeline.end
        return end if self._more_may_come() else max(end, now + 2 * SAMPLE_RATE_HZ)

    def _onset(self) -> int | None:
        """The frame at which the mouth should begin and still can, when speech is ahead."""
        now = self._now()
        self._scan.look(frame_of(self._timeline.end), frame_of(now))
        speech = self._scan.first_speech(max(frame_of(now), self._handled))
        return None if speech is None else max(speech - PREROLL_FRAMES, self._soonest())
