"""What the face of a live session does: the planner's steps, made a little ahead of the media clock and never behind it.

It listens in its loop, speaks from the pose it shows, and goes back without a jump. While it expresses something, its idle face is
drawn frame by frame, since the loop's pictures express nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.expression.looks import Looks
from pipeline.live.deadlines import Deadlines
from pipeline.live.idle_loop import IdleLoop
from pipeline.live.loop_place import LoopPlace
from pipeline.live.picture_shelf import PictureShelf
from pipeline.live.screen import Screen
from pipeline.live.timeline import Timeline
from pipeline.live.worker import Worker
from pipeline.session.expressed import Expressed
from pipeline.session.motion_maker import MotionMaker, Opening
from pipeline.session.motion_score import MotionScore
from pipeline.session.planner import Doing, Frames, Planner, Step, Turn
from pipeline.session.speech_scan import SpeechScan
from pipeline.stages import Stages
from pipeline.types import MOTION_FPS, Nv12Rect

_IDLE_CHUNK: Final = 4
_SOON_FRAMES: Final = 2
_LATEST_CHANGE_FRAMES: Final = 4
"""Frames after which a change that was asked for begins at the latest, 160 ms: pictures that are not there by then are held."""
_LATE_FRAMES: Final = MOTION_FPS
"""Frames before the present that may still be drawn, at most: speech that is further behind starts anew."""


class Performer:
    """Drives the face of one session: asks the planner what comes next, when it is due, and has it made and drawn.

    Args:
        stages: The stages that make motion.
        loop: The loop in which the face idles.
        opening: Gives the carry with which speech begins.
        timeline: The samples that will be heard.
        scan: Decides which frames of the timeline are speech.
        shelf: Draws pictures and keeps them until they are due.
        deadlines: Says when work is due.
        expressed: What the face expresses.
    """

    def __init__(
        self,
        stages: Stages,
        loop: IdleLoop,
        opening: Opening,
        timeline: Timeline,
        scan: SpeechScan,
        shelf: PictureShelf,
        deadlines: Deadlines,
        expressed: Expressed,
    ) -> None:
        place = LoopPlace(loop)
        self._grid = loop.grid
        self._scan = scan
        self._shelf = shelf
        self._deadlines = deadlines
        self._expressed = expressed
        self._changed_from: int | None = None if expressed.at_rest(0) else 0
        self._planner = Planner(deadlines.rules)
        self._score = MotionScore(place.motion)
        self._screen = Screen(loop.grid, place, shelf, self._score)
        self._opening = opening
        self._maker = MotionMaker(stages, opening, self._score, timeline.levelled)
        self._worker = Worker(lambda: self._set_up(opening, loop.motion_at(0)), self._step)

    @property
    def fault(self) -> BaseException | None:
        """The error that ended the work; None while it goes on."""
        return self._worker.fault

    def start(self) -> None:
        """Begin to work."""
        self._worker.start()

    def wake(self) -> None:
        """Look for work again: there may be some now."""
        self._worker.wake()

    async def close(self) -> None:
        """Give up all work and wait for its end."""
        await self._worker.close(self._shelf.clear(self._maker.epoch))

    def take(self, tick: int) -> tuple[Nv12Rect | None, bool]:
        """Take the picture of a tick, None to hold the one before, and whether one was due that had not come."""
        if self._in_loop:
            self._screen.enter_loop(tick // self._grid.ticks_per_frame)
            self._look_up()
        else:
            if (attention := self._expressed.attention) is not None:
                attention.look_after(self._planner.next)
            self.wake()
        shown = self._screen.take(tick)
        if self._screen.unseen and self._planner.doing is Doing.FADE:
            self._rest(self._planner.next)
        return shown

    def _look_up(self) -> None:
        """Leave the loop where somebody speaks to the face."""
        attention, frame = self._expressed.attention, self._deadlines.soonest_speech
        if attention is None or self._changed_from is not None or not self._screen.has_loop:
            return
        if attention.stirs(frame):
            attention.open(frame)
            self._changed_from = frame
            self.wake()

    def express(self, looks: Looks) -> int:
        """Express something else, from the first frame on that can be drawn in time; returns that frame.

        Raises:
            InvalidInputError: The avatar's family cannot show it, and it names the part; or too many changes are under way.
        """
        present = self._deadlines.present
        frame = min(max(self._deadlines.soonest, present + _SOON_FRAMES), present + _LATEST_CHANGE_FRAMES)
        self._expressed.change(looks, frame / MOTION_FPS, (present - _LATE_FRAMES) / MOTION_FPS)
        self._changed_from = frame if self._changed_from is None else min(frame, self._changed_from)
        self.wake()
        return frame

    def express_at(self, looks: Looks, at_s: float) -> None:
        """Express something else at a second of the session, unless speech is cut before; errors are those of `express`."""
        present = self._deadlines.present
        soonest_s, drawn_s = (present + _SOON_FRAMES) / MOTION_FPS, (present - _LATE_FRAMES) / MOTION_FPS
        self._expressed.plan(looks, max(at_s, soonest_s), drawn_s)
        frame = int(at_s * MOTION_FPS)
        self._changed_from = frame if self._changed_from is None else min(frame, self._changed_from)
        self.wake()

    def interrupt(self, epoch: int, tick: int) -> None:
        """Stop speaking at once: all work is given up, and the face returns to its loop from the pose that `tick` finds."""
        self._maker.epoch = epoch
        frame, screen = tick // self._grid.ticks_per_frame, self._screen
        pose = self._score.at(screen.shown)
        self._expressed.forget_plans(frame / MOTION_FPS)
        self._drop_work()
        self._scan.reset(frame)
        self._planner = self._planner.deaf_until(frame)
        if self._planner.doing is Doing.IDLE:
            if not self._in_loop:  # what was drawn ahead is gone
                self._planner = self._planner.after(Turn(Doing.IDLE, self._deadlines.soonest))
            return
        if self._planner.doing is Doing.SPEECH and not screen.is_drawn(frame):  # it was about to begin
            self._score.forget_from(frame)
            self._rest(frame)
            return
        first = frame + self._deadlines.way_back_frames
        self._score.hold(pose, screen.shown + 1, first)
        screen.calm_until = first
        screen.go_on_drawing(frame)
        self._begin_fade(Turn(Doing.FADE, first))

    def restart(self) -> None:
        """Give up all work and go on at the present, because a stage does not answer."""
        self._drop_work()
        if self._planner.doing is Doing.SPEECH:
            self._deadlines.back_off()
            self._planner = self._planner.after(Turn(Doing.SPEECH, 0))  # far behind: it starts anew when it is due

    def _drop_work(self) -> None:
        self._maker.begin_anew()
        self._worker.begin_anew(self._shelf.clear(self._maker.epoch))

    async def _set_up(self, opening: Opening, pose: F32) -> None:
        with suppress(LiveAnchorError):  # counted; the first call of speech does it then
            await opening.set_up(np.repeat(pose[None], opening.history_frames, axis=0), self._maker.epoch)

    async def _step(self) -> bool:
        """Do the next piece of work; False when there is none now."""
        try:
            if self._changed_from is not None:
                await self._redraw()
                return True
            if self._planner.doing is Doing.SPEECH:
                return await self._speak_on()
            return await self._listen()
        except LiveAnchorError:  # counted where the call was made; the picture holds
            self._maker.begin_anew()
            self._deadlines.back_off()
            return False

    async def _speak_on(self) -> bool:
        deadlines = self._deadlines
        if deadlines.waits:
            return False
        if deadlines.missed(self._planner.next):
            self._begin_speech(Turn(Doing.SPEECH, deadlines.soonest))
        if not deadlines.speech_is_due(self._planner.next):
            return False
        self._scan.look(self._planner.needed, 0)
        return await self._do(self._planner.step(self._scan, self._planner.next, self._planner.next))

    async def _listen(self) -> bool:
        """In the loop and on the way back into it: look out for speech."""
        present = self._deadlines.present
        self._scan.look(self._deadlines.written, present)
        if self._planner.doing is Doing.IDLE and not self._in_loop:
            if self._planner.next < present:
                self._planner = self._planner.after(Turn(Doing.IDLE, self._deadlines.soonest))
            if self._loop_suffices(self._planner.next):
                await self._enter_loop(self._planner.next)
                return True
        step = self._planner.step(self._scan, present, self._deadlines.soonest_speech)
        if isinstance(step, Frames) and not self._deadlines.fade_is_due(step.first):
            return False
        return await self._do(step)

    async def _do(self, step: Step | None) -> bool:
        """Take a step; False where there is none."""
        if step is None:
            return False
        if isinstance(step, Frames):
            await self._make(step)
        elif step.to is Doing.SPEECH:
            self._begin_speech(step)
        elif step.to is Doing.FADE:
            self._begin_fade(step)
        elif self._loop_suffices(step.first):
            await self._enter_loop(step.first)
        else:
            self._draw_idle(step)
        return True

    @property
    def _in_loop(self) -> bool:
        """Whether the loop shows the idle face, and nothing is drawn."""
        return self._planner.doing is Doing.IDLE and not self._planner.rules.idle

    def _loop_suffices(self, frame: int) -> bool:
        """Whether the loop can show the idle face from a frame on."""
        return self._expressed.at_rest(frame) and (self._screen.has_loop or not self._expressed.looks)

    def _draw_idle(self, turn: Turn) -> None:
        """Idle motion is drawn from a frame on."""
        self._maker.turn(turn)
        self._planner = self._planner.idling(_IDLE_CHUNK).after(turn)

    async def _enter_loop(self, frame: int) -> None:
        """Leave the rest to the loop."""
        await self._shelf.finish(self._score.idle(frame, 1)[0])
        self._attend_no_longer()
        self._planner = self._planner.idling(0).after(Turn(Doing.IDLE, frame))
        self._screen.draw_until(frame)

    async def _redraw(self) -> None:
        """Draw again what was drawn ahead, with what is expressed now."""
        first, self._changed_from = self._changed_from or 0, None
        made = self._planner.next
        if self._in_loop:
            if not self._expressed.at_rest(first):
                frame = max(first, self._deadlines.present + _SOON_FRAMES)
                self._screen.draw_idle_from(frame)
                self._draw_idle(Turn(Doing.IDLE, frame))
        elif (first := max(first, self._deadlines.present + 1)) < made:
            self._shelf.cut(first)
            motion = np.stack([self._score.at(frame) for frame in range(first, made)])
            await self._shelf.add(self._expressed.lay_over(motion, first), first)

    async def _make(self, frames: Frames) -> None:
        motion = await self._maker.make(frames)
        self._planner = self._planner.after(frames)
        self._score.keep(motion, frames.first)
        await self._shelf.add(self._expressed.lay_over(motion, frames.first), frames.first)

    def _begin_speech(self, turn: Turn) -> None:
        """Speech starts from what is shown before it; what was decided for later is forgotten."""
        first, made, screen = turn.first, self._planner.next, self._screen
        if first < made:
            self._shelf.cut(first)
            self._score.forget_from(first)
        if made < first and screen.shown < first and screen.is_drawn(first - 1):  # held, if nothing newer was drawn
            self._score.hold(self._score.at(screen.shown), screen.shown + 1, first)
        cadence = self._deadlines.begin_speech()
        self._opening.hop_frames = cadence.hop_frames
        self._shelf.chunk_frames = cadence.chunk_frames
        self._maker.turn(turn)
        screen.draw_from(first)
        self._planner = replace(self._planner, rules=self._deadlines.rules).after(turn)

    def _begin_fade(self, turn: Turn) -> None:
        """Go back into the loop from the pose before a frame."""
        self._maker.turn(turn)
        self._planner = self._planner.after(turn)
        if self._screen.unseen:  # no picture of this speech was ever seen: the loop is what is shown
            self._score.clear()
            self._rest(turn.first)

    def _attend_no_longer(self) -> None:
        if self._expressed.attention is not None:
            self._expressed.attention.close()

    def _rest(self, frame: int) -> None:
        """The loop is shown, and nothing is left to be made."""
        self._planner = self._planner.idling(0).after(Turn(Doing.IDLE, frame))
        self._screen.draw_none()
        self._attend_no_longer()
        if not self._expressed.at_rest(frame):
            self._changed_from = frame
