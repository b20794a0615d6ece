"""A session: one speaker's audio in, NV12 rectangles out, in order, with a bounded amount of work in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import numpy as np

from kernels.errors import InvalidInputError
from pipeline.behaviour import MINI, MotionBehaviour
from pipeline.cadence import infill_odd_frames
from pipeline.config import SessionSettings
from pipeline.speech_motion import SpeechMotion
from pipeline.stages import RenderRequest, Stages
from pipeline.types import AudioChunk, MotionChunk, Nv12RectBatch


async def rechunk(
    hops: AsyncIterator[MotionChunk], size: int, need_following: bool
) -> AsyncGenerator[tuple[MotionChunk, bool], None]:
    """Hops of any length -> chunks of `size` frames; the last may be shorter.

    Args:
        hops: Consecutive motion.
        size: Frames per chunk.
        need_following: Hold a chunk back until the frame after it is known; yielded chunks then carry that frame as an
            extra last row, which the flag beside them says.
    """
    pending = np.zeros((0, 0), np.float32)
    first = 0
    wanted = size + int(need_following)
    async for hop in hops:
        if not len(pending):
            first, pending = hop.first_frame, hop.motion
        else:
            pending = np.concatenate([pending, hop.motion])
        while len(pending) >= wanted:
            yield MotionChunk(pending[:wanted], first), need_following
            pending, first = pending[size:], first + size
    if len(pending):
        yield MotionChunk(pending, first), False


async def stride_two(hops: AsyncIterator[MotionChunk]) -> AsyncGenerator[MotionChunk, None]:
    """The stride-2 cadence: odd frames become the midpoint of their neighbours, one hop later than without.

    Args:
        hops: Consecutive motion; every hop but the last has an even number of frames.
    """
    held: MotionChunk | None = None
    async for hop in hops:
        if held is not None:
            yield MotionChunk(infill_odd_frames(held.motion, held.first_frame, hop.motion[0]), held.first_frame)
        held = hop
    if held is not None:
        yield MotionChunk(infill_odd_frames(held.motion, held.first_frame, None), held.first_frame)


async def run_session(
    source: AsyncIterator[AudioChunk],
    stages: Stages,
    avatar_id: str,
    settings: SessionSettings,
    seed: int,
    behaviour: MotionBehaviour = MINI,
) -> AsyncGenerator[Nv12RectBatch, None]:
    """Drive one session to the end of its audio.

    Args:
        source: The speech, 16 kHz mono, consecutive.
        stages: The stage calls.
        avatar_id: Whose face.
        settings: Chunking, frame rate, colour, silence.
        seed: See `SpeechMotion`.
        behaviour: Of the avatar, `pipeline.behaviour.behaviour_of(avatar)`.

    Yields:
        Rectangles of consecutive frames. At 50 frames/s two per frame of motion; the caller cuts to the exact length.

    Raises:
        InvalidInputError: A cadence that the family cannot do.

    Up to `settings.credits` render calls are in flight; leaving the generator early cancels them.
    """
    if settings.cadence == 2 and not stages.info.doubles_in_motion_space:
        detail = f"the family {stages.info.family} cannot fill in frames in motion space"
        raise InvalidInputError("cadence", "2", "1", detail)
    need_following = settings.fps == 50
    in_flight: deque[asyncio.Task[Nv12RectBatch]] = deque()
    hops = SpeechMotion(stages, settings.silence, seed, behaviour=behaviour).run(source)
    if settings.cadence == 2:
        hops = stride_two(hops)
    try:
        async with aclosing(hops), aclosing(rechunk(hops, settings.chunk_frames, need_following)) as chunks:
            async for chunk, has_following in chunks:
                motion = chunk.motion[:-1] if has_following else chunk.motion
                request = RenderRequest(
                    avatar_id=avatar_id,
                    motion=MotionChunk(motion, chunk.first_frame),
                    following=chunk.motion[-1] if has_following else None,
                    fps=settings.fps,
                    colour=settings.colour,
                )
                in_flight.append(asyncio.create_task(stages.renderer(request)))
                while len(in_flight) >= settings.credits:
                    yield await in_flight.popleft()
        while in_flight:
            yield await in_flight.popleft()
    finally:
        for task in in_flight:
            task.cancel()
        await asyncio.gather(*in_flight, return_exceptions=True)
