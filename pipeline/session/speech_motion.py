"""Speech in, motion out: hops of audio go to the neural stages while someone speaks; silence idles for free."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.clock import motion_frame_count
from pipeline.config import SilenceSettings
from pipeline.session.behaviour import MotionBehaviour
from pipeline.session.features_ahead import FeaturesAhead
from pipeline.session.motion_maker import MotionMaker, Opening
from pipeline.session.motion_score import MotionScore
from pipeline.session.pcm_buffer import PcmBuffer
from pipeline.session.planner import Doing, Frames, Planner, Turn, file_rules
from pipeline.session.speech_scan import SpeechScan
from pipeline.stages import Stages
from pipeline.types import SAMPLES_PER_FRAME, AudioChunk, MotionChunk

HOPS_AHEAD: Final = 6
"""Hops of a file whose features are asked for at once: a second and a bit."""


class SpeechMotion:
    """Turns the samples of one clip into motion, without deadlines.

    Args:
        stages: The neural stages.
        settings: When a frame counts as speech.
        seed: Head motion, blinks and idle motion are functions of it and of the frame index.
        behaviour: How the avatar's family idles and begins to speak.

    Attributes:
        neural_hops: Hops for which the neural stages were called.
        idle_hops: Hops that cost no neural call.
    """

    def __init__(self, stages: Stages, settings: SilenceSettings, seed: int, *, behaviour: MotionBehaviour) -> None:
        self._info = stages.info
        self._buffer = PcmBuffer()
        self._scan = SpeechScan(self._buffer, settings)
        self._planner = Planner(file_rules(stages.info))
        self._score = MotionScore(lambda first, count: behaviour.idle(seed, first, count))
        self._opening = Opening(behaviour, stages, seed, stages.info.hop_frames)
        self._ahead = FeaturesAhead(stages, self._buffer)
        self._maker = MotionMaker(stages, self._opening, self._score, self._buffer, self._ahead.rows)
        self._breaks = True
        self.neural_hops = 0
        self.idle_hops = 0

    async def run(self, source: AsyncIterator[AudioChunk]) -> AsyncGenerator[MotionChunk, None]:
        """Consume the audio and yield motion hop by hop, the last one cut to the length of the audio.

        The first frame of all, of speech and of silence is flagged (`MotionChunk.hold`).
        """
        history = self._opening.history_frames
        self._score.keep(self._score.idle(-history, history), -history)
        await self._opening.set_up(self._score.before(0, history), epoch=0)
        try:
            async for chunk in source:
                self._buffer.append(chunk.pcm)
                while self._hop_is_complete():
                    yield await self._next_hop()
            frames = motion_frame_count(self._buffer.end)
            while (left := frames - self._planner.next) > 0:
                chunk_out = await self._next_hop()
                hold = None if chunk_out.hold is None else chunk_out.hold[:left]
                yield MotionChunk(chunk_out.motion[:left], chunk_out.first_frame, hold)
        finally:
            await self._ahead.close()

    def _hop_is_complete(self) -> bool:
        ahead = max(self._info.lookahead_samples, self._info.lookahead_frames * SAMPLES_PER_FRAME)
        return self._buffer.end >= (self._planner.next + self._info.hop_frames) * SAMPLES_PER_FRAME + ahead

    async def _next_hop(self) -> MotionChunk:
        step = self._decide()
        if self._info.passes_rows_on:
            self._ask_ahead(step)
        motion = await self._maker.make(step)
        self.neural_hops += step.doing is Doing.SPEECH
        self.idle_hops += step.doing is not Doing.SPEECH
        self._planner = self._planner.after(step)
        self._score.keep(motion, step.first)
        self._buffer.discard_before(self._planner.next * SAMPLES_PER_FRAME - self._info.context_samples)
        return MotionChunk(motion, step.first, self._hold(motion))

    def _decide(self) -> Frames:
        """The next frames to make; turns on the way there are taken."""
        self._scan.look(self._planner.needed, 0)
        while not isinstance(step := self._planner.step(self._scan, self._planner.next, self._planner.next), Frames):
            if step is None:
                raise RuntimeError("the rules of a file leave no idle frame to others")
            self._turn(step)
        return step

    def _ask_ahead(self, step: Frames) -> None:
        """Ask for the features of this hop and of those after it that are certain to be spoken.

        Only where no motion stage takes them one after the other: its calls would wait behind features that are not its turn.
        """
        planner, follows = self._planner, step
        for _ in range(HOPS_AHEAD):
            if follows.doing is not Doing.SPEECH or not self._ahead.ask(follows.first, follows.count):
                return
            planner = planner.after(follows)
            if self._buffer.end < planner.needed * SAMPLES_PER_FRAME:
                return
            self._scan.look(planner.needed, 0)
            next_step = planner.step(self._scan, planner.next, planner.next)
            if not isinstance(next_step, Frames):
                return
            follows = next_step

    def _turn(self, turn: Turn) -> None:
        self._breaks |= turn.to is not Doing.IDLE  # a fade ends in idle motion: nothing breaks there
        self._maker.turn(turn)
        self._planner = self._planner.after(turn)

    def _hold(self, motion: F32) -> np.ndarray | None:
        breaks, self._breaks = self._breaks, False
        return np.arange(len(motion)) == 0 if breaks else None
