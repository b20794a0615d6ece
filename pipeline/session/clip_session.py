"""A session: one speaker's audio in, NV12 rectangles out, in order, with a bounded amount of work in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import numpy as np

from kernels.errors import InvalidInputError
from pipeline.config import SessionSettings
from pipeline.session.behaviour import MotionBehaviour
from pipeline.session.cadence import infill_odd_frames
from pipeline.session.drawing import ChunkDrawer, repeat_last
from pipeline.session.expressed import Expressed
from pipeline.session.speech_motion import SpeechMotion
from pipeline.stages import Stages
from pipeline.types import AudioChunk, MotionChunk, Nv12RectBatch


async def rechunk(
    hops: AsyncIterator[MotionChunk], size: int, need_following: bool
) -> AsyncGenerator[tuple[MotionChunk, bool], None]:
    """Hops of any length -> chunks of `size` frames; the last may be shorter.

    Args:
        hops: Consecutive motion.
        size: Frames per chunk.
        need_following: Hold a chunk back until the frame after it is known; yielded chunks then carry that frame as an
            extra last row, and the flag that is yielded with them is True.
    """
    pending = MotionChunk(np.zeros((0, 0), np.float32), 0)
    wanted = size + int(need_following)
    async for hop in hops:
        pending = _joined(pending, hop) if len(pending.motion) else hop
        while len(pending.motion) >= wanted:
            yield _part(pending, 0, wanted), need_following
            pending = _part(pending, size, len(pending.motion))
    if len(pending.motion):
        yield pending, False


def _joined(chunk: MotionChunk, after: MotionChunk) -> MotionChunk:
    hold = None
    if chunk.hold is not None or after.hold is not None:
        hold = np.concatenate([chunk.holds, after.holds])
    return MotionChunk(np.concatenate([chunk.motion, after.motion]), chunk.first_frame, hold)


def _part(chunk: MotionChunk, start: int, stop: int) -> MotionChunk:
    hold = None if chunk.hold is None else chunk.hold[start:stop]
    return MotionChunk(chunk.motion[start:stop], chunk.first_frame + start, hold)


async def stride_two(hops: AsyncIterator[MotionChunk]) -> AsyncGenerator[MotionChunk, None]:
    """The stride-2 cadence: odd frames become the midpoint of their neighbours, one hop later than without.

    Args:
        hops: Consecutive motion; every hop but the last has an even number of frames.
    """
    held: MotionChunk | None = None
    async for hop in hops:
        if held is not None:
            yield replace(held, motion=infill_odd_frames(held.motion, held.first_frame, hop.motion[0]))
        held = hop
    if held is not None:
        yield replace(held, motion=infill_odd_frames(held.motion, held.first_frame, None))


async def run_session(
    source: AsyncIterator[AudioChunk],
    stages: Stages,
    avatar_id: str,
    settings: SessionSettings,
    seed: int,
    behaviour: MotionBehaviour,
    motion: AsyncGenerator[MotionChunk, None] | None = None,
    expressed: Expressed | None = None,
) -> AsyncGenerator[Nv12RectBatch, None]:
    """Drive one session to the end of its audio.

    Args:
        source: The speech, 16 kHz mono, consecutive.
        stages: The stage calls.
        avatar_id: Id of the avatar whose face is drawn.
        settings: Chunking, frame rate, colour, silence.
        seed: Head motion, blinks and idle motion are functions of it and of the frame index.
        behaviour: How the avatar idles and begins to speak, from `pipeline.session.behaviour.behaviour_of`.
        motion: Motion that is made another way (`pipeline.session.clip_motion`); `source` is not read then.
        expressed: What the face expresses besides; None for nothing.

    Yields:
        Rectangles of consecutive frames. At 50 frames/s there are two for each frame of motion; the caller cuts to the exact
        length.

    Raises:
        InvalidInputError: The settings ask for a cadence that the family cannot do.

    Up to `settings.file_credits` render calls are in flight; leaving the generator early cancels them.
    """
    if settings.cadence == 2 and not stages.info.doubles_in_motion_space:
        detail = f"the family {stages.info.family} cannot fill in frames in motion space"
        raise InvalidInputError("cadence", "2", "1", detail)
    drawer, most = ChunkDrawer(stages, avatar_id, settings), settings.file_credits or settings.credits
    last_frame, last_batch = -1, None
    in_flight: deque[asyncio.Task[Nv12RectBatch]] = deque()
    hops = motion or SpeechMotion(stages, settings.silence, seed, behaviour=behaviour).run(source)
    made = hops
    if expressed is not None:
        hops = expressed.hops(hops)
    if settings.cadence == 2:
        hops = stride_two(hops)
    try:
        async with (
            aclosing(made),
            aclosing(hops),
            aclosing(rechunk(hops, settings.chunk_frames, drawer.needs_following)) as chunks,
        ):
            async for chunk, has_following in chunks:
                own = _part(chunk, 0, len(chunk.motion) - int(has_following))
                last_frame = own.first_frame + len(own.motion) - 1
                in_flight.append(drawer.draw(own, chunk.motion[-1] if has_following else None))
                while len(in_flight) >= most:
                    yield (last_batch := await in_flight.popleft())
        while in_flight:
            yield (last_batch := await in_flight.popleft())
        if last_batch is not None and (missing := drawer.closing_frames(last_frame)):
            yield repeat_last(last_batch, missing)
    finally:
        for task in in_flight:
            task.cancel()
        await asyncio.gather(*in_flight, return_exceptions=True)
