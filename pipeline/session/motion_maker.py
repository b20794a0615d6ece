"""Makes the motion that a planner asks for: speech out of the pose that is shown, the fade back, and idle motion."""

from __future__ import annotations

from typing import Protocol

from kernels.arrays import F32
from pipeline.session.behaviour import MotionBehaviour
from pipeline.session.idle_fade import IdleFade
from pipeline.session.motion_score import MotionScore
from pipeline.session.planner import Doing, Frames, Turn
from pipeline.session.spoken_motion import Hear, SpokenMotion, set_up, window_of
from pipeline.stages import Carry, Stages


class Samples(Protocol):
    """Samples of speech by their position."""

    def read(self, start: int, length: int) -> F32:
        """A private copy of samples start .. start + length, silence where there are none."""
        ...


class Opening:
    """How a stretch of speech begins.

    Args:
        behaviour: How faces of the avatar's family begin to speak.
        stages: Say how much past motion a window wants; do what can be done before the first sample.
        seed: Session seed.
        hop_frames: See below.

    Attributes:
        hop_frames: Frames per window of speech that begins: one of `StageInfo.hop_choices`, or the stage's own hop. Families that
            have a set-up take any of them afterwards.
    """

    def __init__(self, behaviour: MotionBehaviour, stages: Stages, seed: int, hop_frames: int) -> None:
        self._behaviour = behaviour
        self._stages = stages
        self._seed = seed
        self.hop_frames = hop_frames
        self._prepared: Carry | None = None

    @property
    def history_frames(self) -> int:
        """Frames of past motion that speech begins from: a shorter hop leaves more of a window to them."""
        info = self._stages.info
        return info.history_frames + max(info.hop_frames - self.hop_frames, 0)

    @property
    def _chosen_hop(self) -> int:
        return 0 if self.hop_frames == self._stages.info.hop_frames else self.hop_frames

    @property
    def mouth(self) -> slice:
        """Columns of the motion that move the mouth, as `MotionBehaviour.mouth` gives them."""
        return self._behaviour.mouth

    async def set_up(self, history: F32, epoch: int) -> None:
        """Do before the first sample what does not depend on samples; once, and only where the family has a set-up.

        Args:
            history: float32 (history_frames, 265), motion shown so far.
            epoch: Session epoch.

        Raises:
            LiveAnchorError: The stage failed; the first call of speech does it then.
        """
        if self._stages.info.sets_up and self._prepared is None:
            carry = self._behaviour.start(self._seed, history, 0, epoch, None, self._chosen_hop)
            self._prepared = await set_up(self._stages, carry)

    def carry(self, history: F32, first_frame: int, epoch: int) -> Carry:
        """The carry of speech whose first frame is `first_frame`, out of `history` (history_frames, 265)."""
        return self._behaviour.start(self._seed, history, first_frame, epoch, self._prepared, self._chosen_hop)


class MotionMaker:
    """Makes motion step by step.

    Args:
        stages: The neural stages.
        opening: How speech begins.
        score: Motion so far, and idle motion.
        samples: What is heard.
        hear: See `SpokenMotion`.

    Attributes:
        epoch: Session epoch; travels with the carries.
    """

    def __init__(
        self, stages: Stages, opening: Opening, score: MotionScore, samples: Samples, hear: Hear | None = None
    ) -> None:
        self._stages = stages
        self._hear = hear
        self._opening = opening
        self._score = score
        self._samples = samples
        self._spoken: SpokenMotion | None = None
        self._fade: IdleFade | None = None
        self.epoch = 0

    def turn(self, turn: Turn) -> None:
        """Begin what a turn says; a fade starts from the pose of the frame before it."""
        self._spoken = self._fade = None
        if turn.to is Doing.FADE:
            last = turn.first - 1
            self._fade = IdleFade.from_pose(
                self._score.at(last), self._score.idle(last, 1)[0], turn.first, self._opening.mouth
            )

    def begin_anew(self) -> None:
        """Drop the carry: the next frames of speech begin anew, from the pose that is shown before them."""
        self._spoken = None

    async def make(self, frames: Frames) -> F32:
        """Motion (n, 265) of the next frames.

        Raises:
            LiveAnchorError: A stage failed.
        """
        if frames.doing is Doing.SPEECH:
            return await self._speak(frames)
        idle = self._score.idle(frames.first, frames.count)
        return idle if self._fade is None else self._fade.apply(idle, frames.first)

    async def _speak(self, frames: Frames) -> F32:
        if self._spoken is None:
            history = self._score.before(frames.first, self._opening.history_frames)
            carry = self._opening.carry(history, frames.first, self.epoch)
            self._spoken = SpokenMotion(self._stages, carry, self._hear)
        window = self._samples.read(*window_of(self._stages.info, frames.first, frames.count))
        chunk = await self._spoken.hop(window, frames.first)
        return chunk.motion
