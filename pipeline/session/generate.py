"""A file job: decoded speech and an avatar in, the bytes of an mp4 out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from pipeline.clock import frame_count, rate_of
from pipeline.config import EncoderSettings, SessionSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.media.audio_in import DecodedAudio
from pipeline.media.encoder import VideoFormat
from pipeline.media.mp4 import PathMp4Writer
from pipeline.media.muxing import Mp4Writer
from pipeline.session.canvas import CanvasPainter
from pipeline.session.frames import clip_batches, paint_batch
from pipeline.session.one_ahead import one_ahead
from pipeline.stages import Stages
from pipeline.types import Avatar, Nv12RectBatch

OnProgress = Callable[[int, int], None]
"""Called with (frames done, frames in all)."""


@dataclass(frozen=True)
class GenerateResult:
    """What was made.

    Attributes:
        frames: Pictures in the file.
        fps: Pictures per second.
        duration_s: Length of the speech in seconds.
        width: Width of the pictures in pixels.
        height: Height of the pictures in pixels.
    """

    frames: int
    fps: float
    duration_s: float
    width: int
    height: int


def video_format(avatar: Avatar, settings: SessionSettings) -> VideoFormat:
    """The format of this avatar's pictures under these settings."""
    height, width = avatar.canvas_rgb.shape[:2]
    return VideoFormat(width, height, rate_of(settings.fps), settings.colour)


def describe(decoded: DecodedAudio, avatar: Avatar, settings: SessionSettings) -> GenerateResult:
    """What a job will make; known before it starts."""
    height, width = avatar.canvas_rgb.shape[:2]
    frames = frame_count(len(decoded.pcm), settings.fps)
    return GenerateResult(frames, settings.fps, decoded.duration_s, width, height)


async def write_clip(
    decoded: DecodedAudio,
    avatar: Avatar,
    stages: Stages,
    settings: SessionSettings,
    writer: Mp4Writer,
    *,
    seed: int = 0,
    looks: Looks = NEUTRAL_FACE,
    on_progress: OnProgress | None = None,
) -> AsyncGenerator[bytes, None]:
    """Run a job into a writer.

    Args:
        decoded: The speech.
        avatar: The presenter.
        stages: Stage calls.
        settings: Session settings.
        writer: Where pictures go; closed in every case when the iteration ends.
        seed: Head motion and blinks are functions of it.
        looks: What the face expresses, by seconds of the speech.
        on_progress: Told after every chunk.

    Yields:
        Bytes of the file as they become ready, never an empty piece. Encoding runs in a thread while the stages work and the next
        pictures are fetched.

    Raises:
        LiveAnchorError: A stage, the encoder or the container failed.
    """
    total = frame_count(len(decoded.pcm), settings.fps)
    painter = CanvasPainter(avatar, settings.colour)
    done = 0

    def encode(batch: Nv12RectBatch) -> bytes:
        return b"".join(writer.write(canvas) for canvas in paint_batch(painter, batch))

    try:
        batches = clip_batches(decoded.for_networks(), avatar, stages, settings, seed, looks)
        async with aclosing(batches), aclosing(one_ahead(batches)) as ready:
            async for batch in ready:
                data = await asyncio.to_thread(encode, batch)
                done += len(batch)
                if on_progress is not None:
                    on_progress(done, total)
                if data:
                    yield data
        if data := await asyncio.to_thread(writer.finish):
            yield data
    finally:
        writer.close()


async def generate_file(
    decoded: DecodedAudio,
    out: Path,
    avatar: Avatar,
    stages: Stages,
    settings: SessionSettings,
    encoder: EncoderSettings,
    *,
    seed: int = 0,
    looks: Looks = NEUTRAL_FACE,
    on_progress: OnProgress | None = None,
) -> GenerateResult:
    """Write one talking mp4, which appears at `out` when it is complete; the arguments are those of `write_clip`."""
    result = describe(decoded, avatar, settings)
    writer = PathMp4Writer(out, video_format(avatar, settings), decoded.voice, encoder, frames=result.frames)
    clip = write_clip(decoded, avatar, stages, settings, writer, seed=seed, looks=looks, on_progress=on_progress)
    async with aclosing(clip):
        async for _ in clip:
            pass
    return result
