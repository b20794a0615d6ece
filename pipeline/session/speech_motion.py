"""Speech in, motion out: hops of audio go to the neural stages while someone speaks; silence idles for free."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

import numpy as np

from kernels.arrays import F32
from pipeline.clock import motion_frame_count
from pipeline.config import SilenceSettings
from pipeline.session.behaviour import MotionBehaviour
from pipeline.session.idle_fade import IdleFade
from pipeline.session.pcm_buffer import PcmBuffer
from pipeline.session.silence import SilenceGate, frame_rms
from pipeline.session.spoken_motion import SpokenMotion, set_up, window_of
from pipeline.stages import Carry, Stages
from pipeline.types import SAMPLES_PER_FRAME, AudioChunk, MotionChunk


class SpeechMotion:
    """One session's way from samples to motion.

    Args:
        stages: The neural stages.
        settings: When a frame counts as speech.
        seed: Head motion, blinks and idle motion are functions of it and of the frame index.
        epoch: Travels with the carries.
        behaviour: How the avatar's family idles and begins to speak.

    Attributes:
        neural_hops: Hops for which the neural stages were called.
        idle_hops: Hops that cost no neural call.
    """

    def __init__(
        self,
        stages: Stages,
        settings: SilenceSettings,
        seed: int,
        epoch: int = 0,
        *,
        behaviour: MotionBehaviour,
    ) -> None:
        self._behaviour = behaviour
        self._stages = stages
        self._info = stages.info
        self._gate = SilenceGate(settings)
        self._seed = seed
        self._epoch = epoch
        self._buffer = PcmBuffer()
        self._total_samples: int | None = None
        self._hop = 0
        self._gated_frames = 0
        self._speech = np.zeros(0, np.bool_)
        self._history: F32 = behaviour.idle(seed, -self._info.history_frames, self._info.history_frames)
        self._prepared: Carry | None = None
        self._spoken: SpokenMotion | None = None
        self._fade: IdleFade | None = None
        self._was_speaking: bool | None = None
        self.neural_hops = 0
        self.idle_hops = 0

    async def run(self, source: AsyncIterator[AudioChunk]) -> AsyncGenerator[MotionChunk, None]:
        """Consume the audio and yield motion hop by hop, the last one cut to the length of the audio.

        The first frame of all, of speech and of silence is flagged (`MotionChunk.hold`).
        """
        begin = self._behaviour.start(self._seed, self._history, 0, self._epoch, None)
        self._prepared = await set_up(self._stages, begin)
        async for chunk in source:
            self._buffer.append(chunk.pcm)
            while self._hop_is_complete():
                yield await self._next_hop()
        self._total_samples = self._buffer.end
        frames = motion_frame_count(self._total_samples)
        while (left := frames - self._hop * self._info.hop_frames) > 0:
            chunk_out = await self._next_hop()
            hold = None if chunk_out.hold is None else chunk_out.hold[:left]
            yield MotionChunk(chunk_out.motion[:left], chunk_out.first_frame, hold)

    @property
    def _hop_samples(self) -> int:
        return self._info.hop_frames * SAMPLES_PER_FRAME

    def _hop_is_complete(self) -> bool:
        ahead = max(self._info.lookahead_samples, self._info.lookahead_frames * SAMPLES_PER_FRAME)
        return self._buffer.end >= (self._hop + 1) * self._hop_samples + ahead

    async def _next_hop(self) -> MotionChunk:
        first_frame = self._hop * self._info.hop_frames
        speaking = self._someone_speaks()
        chunk = await (self._spoken_hop(first_frame) if speaking else self._idle_hop(first_frame))
        if speaking != self._was_speaking:  # the edge of silence, and the very first frame
            chunk = replace(chunk, hold=np.arange(len(chunk.motion)) == 0)
            self._was_speaking = speaking
        self._history = np.concatenate([self._history, chunk.motion])[-self._info.history_frames :]
        self._hop += 1
        self._buffer.discard_before(self._hop * self._hop_samples - self._info.context_samples)
        return chunk

    def _someone_speaks(self) -> bool:
        """Whether any frame of this hop or of its look-ahead counts as speech."""
        frames = self._info.hop_frames + self._info.lookahead_frames
        known = len(self._speech)
        start = self._gated_frames * SAMPLES_PER_FRAME
        fresh = self._buffer.window(start, (frames - known) * SAMPLES_PER_FRAME)
        speech, self._gate = self._gate.step(frame_rms(fresh))
        self._gated_frames += frames - known
        decided = np.concatenate([self._speech, speech])
        self._speech = decided[self._info.hop_frames :]
        return bool(decided.any())

    async def _spoken_hop(self, first_frame: int) -> MotionChunk:
        if self._spoken is None:
            carry = self._behaviour.start(self._seed, self._history, first_frame, self._epoch, self._prepared)
            self._spoken = SpokenMotion(self._stages, carry)
        window = self._buffer.window(*window_of(self._info, first_frame, self._info.hop_frames))
        chunk = await self._spoken.hop(window, first_frame)
        self._fade = None
        self.neural_hops += 1
        return chunk

    async def _idle_hop(self, first_frame: int) -> MotionChunk:
        idle = self._behaviour.idle(self._seed, first_frame - 1, self._info.hop_frames + 1)
        if self._spoken is not None:
            self._fade = IdleFade.from_pose(self._history[-1], idle[0], first_frame)
            self._spoken = None
        self.idle_hops += 1
        motion = idle[1:] if self._fade is None else self._fade.apply(idle[1:], first_frame)
        return MotionChunk(motion, first_frame)
