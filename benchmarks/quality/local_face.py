"""A presenter in this process, with the product's own way from speech or motion to an mp4."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from scipy.io import wavfile

from kernels.arrays import F32, U8
from pipeline.clock import motion_frame_count
from pipeline.config import EncoderSettings, SessionSettings
from pipeline.media.audio_in import decode_audio
from pipeline.media.encoder import VideoFormat
from pipeline.media.mp4 import MemoryMp4Writer
from pipeline.mini.idle_motion import idle_motion
from pipeline.mini.registration import make_avatar
from pipeline.mini.renderer import Renderer
from pipeline.presenter.draw import draw_presenter
from pipeline.session.behaviour import behaviour_of
from pipeline.session.canvas import CanvasPainter
from pipeline.session.frames import audio_blocks, clip_batches, paint_batch
from pipeline.session.local_job import LocalPipeline
from pipeline.session.speech_motion import SpeechMotion
from pipeline.stages import RenderRequest
from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ, Avatar, MotionChunk, Nv12Canvas, Nv12RectBatch

SEED: Final = 7
FILM_CHUNK_FRAMES: Final = 25


class LocalFace:
    """Films a presenter in this process; implements `benchmarks.quality.speaking.Face`.

    Args:
        avatar: The presenter.
        pipeline: The pipeline that draws it.
        seed: Seed of head motion and blinks.
    """

    def __init__(self, avatar: Avatar, pipeline: LocalPipeline, seed: int = SEED) -> None:
        self.avatar = avatar
        self._pipeline = pipeline
        self._seed = seed

    @cached_property
    def _renderer(self) -> Renderer:
        return Renderer(lambda _: self.avatar)

    def speak(self, pcm: F32) -> bytes:
        """Speech, float32 (n,), 16 kHz -> the mp4 that a user would get for a wav of it."""
        with TemporaryDirectory() as folder:
            out = Path(folder) / "spoken.mp4"
            self._pipeline.generate_file(decode_audio(wav_of(pcm)), out, self.avatar, seed=self._seed)
            return out.read_bytes()

    def film(self, motion: F32) -> bytes:
        """Motion float32 (n, 265) -> mp4, by the product's renderer and encoder."""
        painter = CanvasPainter(self.avatar, "bt709")
        look = VideoFormat(painter.canvas.width, painter.canvas.height, MOTION_FPS)
        with MemoryMp4Writer(look, None, EncoderSettings()) as writer:
            for start in range(0, len(motion), FILM_CHUNK_FRAMES):
                batch = self._render(motion[start : start + FILM_CHUNK_FRAMES], start)
                for canvas in paint_batch(painter, batch):
                    writer.write(canvas)
            return writer.finish()

    def canvases(self, motion: F32) -> list[Nv12Canvas]:
        """Whole pictures of motion float32 (n, 265), every one in its own memory."""
        painter = CanvasPainter(self.avatar, "bt709")
        batch = self._render(motion, 0)
        pictures = paint_batch(painter, batch)
        return [Nv12Canvas(canvas.y_plane.copy(), canvas.uv_plane.copy()) for canvas in pictures]

    def crops(self, motion: F32) -> U8:
        """Face crops of motion float32 (n, 265), uint8 (n, 512, 512, 3), RGB."""
        chunk = MotionChunk(np.ascontiguousarray(motion), 0)
        return self._renderer.crops(RenderRequest(self.avatar.avatar_id, chunk, None, MOTION_FPS, "bt709")).crops

    def idle(self, frames: int) -> F32:
        """Motion float32 (frames, 265) of the idle loop."""
        return idle_motion(self._seed, 0, frames)

    def planes(self, pcm: F32, chunk_frames: int | None) -> Iterator[tuple[U8, U8]]:
        """NV12 planes of the face rectangle of every frame; None renders the clip in one pass."""
        batches = asyncio.run(self._in_chunks(pcm, chunk_frames) if chunk_frames else self._in_one_pass(pcm))
        for batch in batches:
            yield from zip(batch.y_planes, batch.uv_planes, strict=True)

    def motion(self, pcm: F32) -> F32:
        """Motion float32 (n, 265) that the speech networks command."""
        return asyncio.run(self._motion(pcm))

    def _render(self, motion: F32, first_frame: int) -> Nv12RectBatch:
        chunk = MotionChunk(np.ascontiguousarray(motion), first_frame)
        return self._renderer.render(RenderRequest(self.avatar.avatar_id, chunk, None, MOTION_FPS, "bt709"))

    async def _in_chunks(self, pcm: F32, chunk_frames: int) -> list[Nv12RectBatch]:
        settings = SessionSettings.model_validate({"chunk_frames": chunk_frames})
        batches = clip_batches(pcm, self.avatar, self._pipeline.stages, settings, self._seed)
        return [batch async for batch in batches]

    async def _in_one_pass(self, pcm: F32) -> list[Nv12RectBatch]:
        motion = await self._motion(pcm)
        return [self._render(motion[: motion_frame_count(len(pcm))], 0)]

    async def _motion(self, pcm: F32) -> F32:
        speech = SpeechMotion(
            self._pipeline.stages, SessionSettings().silence, self._seed, behaviour=behaviour_of(self.avatar)
        )
        hops: AsyncIterator[MotionChunk] = speech.run(audio_blocks(pcm))
        return np.concatenate([hop.motion async for hop in hops])


def wav_of(pcm: F32) -> bytes:
    """A float WAV file in memory."""
    buffer = BytesIO()
    wavfile.write(buffer, SAMPLE_RATE_HZ, np.ascontiguousarray(pcm, dtype=np.float32))
    return buffer.getvalue()


def presenter_face(pipeline: LocalPipeline) -> LocalFace:
    """The default presenter."""
    return LocalFace(pipeline.avatar(), pipeline)


def large_presenter_face(pipeline: LocalPipeline) -> LocalFace:
    """The default presenter drawn on 1080 x 1920."""
    drawing = draw_presenter(1080, 1920)
    return LocalFace(make_avatar(drawing.rgb, drawing.landmarks, "1080x1920"), pipeline)


def portrait_face(pipeline: LocalPipeline, photo: Path) -> LocalFace:
    """A photo, registered as a user's would be.

    Raises:
        InvalidInputError: It shows no usable face.
    """
    return LocalFace(pipeline.register(photo), pipeline)
