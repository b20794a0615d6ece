"""A whole clip as pictures: the session's rectangles painted into the canvas and cut to the exact length."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.clock import frame_count
from pipeline.config import SessionSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.session.behaviour import behaviour_of
from pipeline.session.canvas import CanvasPainter
from pipeline.session.clip_motion import clip_motion, clip_start
from pipeline.session.clip_session import run_session
from pipeline.session.expressed import Expressed
from pipeline.session.gestures import WholeVoice
from pipeline.stages import Stages
from pipeline.types import SAMPLE_RATE_HZ, AudioChunk, Avatar, Nv12Canvas, Nv12RectBatch

BLOCK_SAMPLES = SAMPLE_RATE_HZ
"""Samples per `AudioChunk` of a clip that is already in memory."""


async def audio_blocks(pcm: F32) -> AsyncGenerator[AudioChunk, None]:
    """Samples in memory as a source for a session."""
    for start in range(0, len(pcm), BLOCK_SAMPLES):
        yield AudioChunk(pcm[start : start + BLOCK_SAMPLES], start)


async def clip_batches(
    pcm: F32, avatar: Avatar, stages: Stages, settings: SessionSettings, seed: int, looks: Looks = NEUTRAL_FACE
) -> AsyncGenerator[Nv12RectBatch, None]:
    """Rectangles of a whole clip, exactly ceil(samples * fps / 16000) of them.

    Raises:
        InvalidInputError: No samples, or motion or looks that the family cannot make.
    """
    if not len(pcm):
        raise InvalidInputError("audio", "0 samples", "at least one sample")
    left = frame_count(len(pcm), settings.fps)
    start = clip_start(avatar, seed, len(pcm), settings.file_motion)
    motion = None if start is None else clip_motion(pcm, stages, start)
    expressed = Expressed(avatar, looks, WholeVoice(pcm), seed)
    source, behaviour = audio_blocks(pcm), behaviour_of(avatar)
    batches = run_session(source, stages, avatar.avatar_id, settings, seed, behaviour, motion, expressed)
    async with aclosing(batches):
        async for batch in batches:
            kept = min(len(batch), left)
            if kept:
                yield batch.part(0, kept)
            left -= kept


def paint_batch(painter: CanvasPainter, batch: Nv12RectBatch) -> Iterator[Nv12Canvas]:
    """The pictures of a batch, one after the other in the same arrays."""
    for index in range(len(batch)):
        yield painter.paint(batch.frame(index))
