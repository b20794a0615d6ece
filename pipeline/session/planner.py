"""What a face does next: it idles, speaks, fades back into idle motion, and is back. Frames of speech in, steps out.

A file and a live session both ask this planner. It knows neither samples nor pictures and has no clock: the caller says what
was heard, where the present is, and which frame can still be made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from pipeline.session.idle_fade import POSE_FADE_FRAMES
from pipeline.stages import StageInfo


class Doing(StrEnum):
    """What the motion of a frame is made of."""

    IDLE = "idle"
    SPEECH = "speech"
    FADE = "fade"


class Heard(Protocol):
    """Which frames count as speech."""

    def first_speech(self, from_frame: int) -> int | None:
        """The first frame of speech at or after `from_frame`, None where none is known."""
        ...

    def any_speech(self, from_frame: int, until_frame: int) -> bool:
        """Whether any frame from .. until counts as speech."""
        ...


@dataclass(frozen=True)
class Turn:
    """The face begins to do something else.

    Attributes:
        to: What it does; `Doing.IDLE` says that a fade is over.
        first: The first frame of it. In a live session it may lie before frames that were made already.
    """

    to: Doing
    first: int


@dataclass(frozen=True)
class Frames:
    """Motion is to be made.

    Attributes:
        doing: What it is made of.
        first: Index of its first frame.
        count: How many frames.
    """

    doing: Doing
    first: int
    count: int


Step = Turn | Frames


@dataclass(frozen=True)
class Rules:
    """How motion is cut, in frames of 40 ms.

    Attributes:
        hop: New frames per motion window.
        gate: Whole frames after a hop that decide, with it, whether speech goes on.
        grid: Speech begins at a multiple of so many frames after the frame that was made last.
        ahead: Speech begins so many frames before the first frame that counts as speech; on a coarse grid at least so many.
        idle: Frames of idle motion per step; 0 where a loop shows idle motion without being asked.
        fade: Largest number of frames of a fade per step.
        fade_in_all: Frames from the last spoken one until idle motion is all that is left.
    """

    hop: int
    gate: int
    grid: int
    ahead: int
    idle: int
    fade: int
    fade_in_all: int = POSE_FADE_FRAMES


def file_rules(info: StageInfo) -> Rules:
    """The rules of a file: everything is cut into whole hops, so that how its samples come changes nothing."""
    hop, gate = info.hop_frames, info.lookahead_frames
    return Rules(hop=hop, gate=gate, grid=hop, ahead=gate, idle=hop, fade=hop)


@dataclass(frozen=True)
class Planner:
    """Where the motion of one face stands. `step` proposes what comes next, `after` is the planner once that is done.

    Attributes:
        rules: How motion is cut.
        doing: What is being done.
        next: The first frame that was not made.
        handled: Speech before this frame was answered already, or cut off.
        fade_end: The frame at which the fade is over.
    """

    rules: Rules
    doing: Doing = Doing.IDLE
    next: int = 0
    handled: int = 0
    fade_end: int = 0

    @property
    def needed(self) -> int:
        """Frames that must have been heard before the next step is certain."""
        return self.next + self.rules.hop + self.rules.gate

    def step(self, heard: Heard, shown: int, soonest: int) -> Step | None:
        """What comes next; nothing is changed.

        Args:
            heard: Speech as far as it is known; in speech and in a file up to `needed`.
            shown: Frame that is shown now; what lies before is past. A file passes `next`.
            soonest: The first frame at which speech can still begin. A file passes `next`.

        Returns:
            A turn, frames to make, or None where a loop idles and there is nothing to do.
        """
        rules, first = self.rules, self.next
        if self.doing is Doing.SPEECH:
            if heard.any_speech(first, self.needed):
                return Frames(Doing.SPEECH, first, rules.hop)
            return Turn(Doing.FADE, first)
        if self.doing is Doing.FADE and first >= self.fade_end:
            return Turn(Doing.IDLE, first)
        onset = self._onset(heard, shown, soonest)
        looped = self.doing is Doing.IDLE and not rules.idle
        if onset is not None and (looped or onset <= first):
            return Turn(Doing.SPEECH, onset)
        if looped:
            return None
        count = rules.idle
        if self.doing is Doing.FADE:
            count = min(rules.fade, _round_up(self.fade_end - first, rules.grid))
        return Frames(self.doing, first, count if onset is None else min(count, onset - first))

    def after(self, step: Step) -> Planner:
        """The planner once a step was taken."""
        if isinstance(step, Frames):
            return replace(self, next=step.first + step.count)
        if step.to is Doing.FADE:
            end = step.first + self.rules.fade_in_all
            return replace(self, doing=Doing.FADE, next=step.first, handled=step.first, fade_end=end)
        return replace(self, doing=step.to, next=step.first)

    def idling(self, frames: int) -> Planner:
        """The planner that makes so many frames of idle motion per step; 0 where a loop shows them."""
        return replace(self, rules=replace(self.rules, idle=frames))

    def deaf_until(self, frame: int) -> Planner:
        """The planner for which speech before a frame is not to be answered: it was cut off."""
        return replace(self, handled=frame)

    def _onset(self, heard: Heard, shown: int, soonest: int) -> int | None:
        """The frame at which the mouth should begin and still can, where speech is ahead."""
        speech = heard.first_speech(max(shown, self.handled))
        if speech is None:
            return None
        wanted = speech - self.rules.ahead - self.rules.grid + 1
        return soonest + _round_up(max(wanted - soonest, 0), self.rules.grid)


def _round_up(frames: int, grid: int) -> int:
    return -(-frames // grid) * grid
