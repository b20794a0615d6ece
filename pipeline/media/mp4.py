"""A finished mp4 (H.264 + AAC), index first, in memory or at a path that the caller names."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import EncoderSettings
from pipeline.media.audio_in import MAX_VOICE_RATE_HZ, AudioTrack
from pipeline.media.encoder import VideoFormat
from pipeline.media.encoder_select import EncoderSelector
from pipeline.media.muxing import MuxedMp4, MuxingError

if TYPE_CHECKING:
    from av.container import OutputContainer


AAC_PACKET_SAMPLES = 1024
INDEX_BYTES_PER_PACKET = 32
INDEX_BYTES_FIXED = 16 * 1024


class _NamedBuffer(io.BytesIO):
    """Memory that FFmpeg can reopen by name, which moving the index to the front needs."""

    name = "memory.mp4"


class MemoryMp4Writer(MuxedMp4):
    """Implements `Mp4Writer` in memory: `finish` returns the whole file.

    Args:
        video_format: Size, rate and colour of the pictures.
        voice: The sound, or None for a silent file.
        settings: Encoder settings.
        selector: Opens encoders; the process-wide one by default.
        frames: How many pictures will come, where that is known: room for the index is then kept at the front. Otherwise the whole
            file is moved when the index is written, and is held twice for a moment.

    Raises:
        EncoderError: No encoder can be opened.
        InvalidInputError: The voice has a rate that AAC does not know, or no samples.
        ShapeError: The voice has a wrong shape or dtype.
    """

    def __init__(
        self,
        video_format: VideoFormat,
        voice: AudioTrack | None,
        settings: EncoderSettings,
        selector: EncoderSelector | None = None,
        frames: int | None = None,
    ) -> None:
        self._buffer = _NamedBuffer()
        self._index_bytes = None if frames is None else index_bytes(frames, voice)
        super().__init__(video_format, voice, settings, "file", selector)

    def _open_container(self, options: dict[str, str]) -> OutputContainer:
        buffer = self._buffer = _NamedBuffer()
        if self._index_bytes is not None:
            options = {"moov_size": str(self._index_bytes), **options}
            reserved: OutputContainer = self._av.open(buffer, "w", format="mp4", container_options=options)
            return reserved
        container: OutputContainer = self._av.open(
            buffer,
            "w",
            format="mp4",
            container_options={"movflags": "+faststart", **options},
            io_open=lambda url, flags, options: io.BytesIO(buffer.getvalue()),
        )
        return container

    def _append(self, data: bytes) -> None:
        self._buffer.seek(0, io.SEEK_END)
        self._buffer.write(data)

    def finish(self) -> bytes:
        """The whole file. See `Mp4Writer.finish`."""
        super().finish()
        return self._buffer.getvalue()


def index_bytes(frames: int, voice: AudioTrack | None) -> int:
    """Room for the index of a file: 16 to 24 bytes per packet were measured; at least one AAC packet per 1024 samples."""
    sounds = 0 if voice is None else len(voice.samples) * MAX_VOICE_RATE_HZ // (voice.rate_hz * AAC_PACKET_SAMPLES) + 3
    return INDEX_BYTES_PER_PACKET * (frames + sounds) + INDEX_BYTES_FIXED


class PathMp4Writer(MuxedMp4):
    """Implements `Mp4Writer` on disk: the file appears at its path, complete, when `finish` returns.

    Args:
        path: Where; an existing file is replaced at the end. Its folder must exist.
        video_format: Size, rate and colour of the pictures.
        voice: The sound, or None for a silent file.
        settings: Encoder settings.
        selector: Opens encoders; the process-wide one by default.
        frames: As for `MemoryMp4Writer`, which makes the same bytes for the same number.

    Raises:
        MuxingError: The folder cannot be written to.
        EncoderError: No encoder can be opened.
        InvalidInputError: The voice has a rate that AAC does not know, or no samples.
        ShapeError: The voice has a wrong shape or dtype.
    """

    def __init__(
        self,
        path: Path,
        video_format: VideoFormat,
        voice: AudioTrack | None,
        settings: EncoderSettings,
        selector: EncoderSelector | None = None,
        frames: int | None = None,
    ) -> None:
        self._path = path
        self._index_bytes = None if frames is None else index_bytes(frames, voice)
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        super().__init__(video_format, voice, settings, "file", selector)

    def _open_container(self, options: dict[str, str]) -> OutputContainer:
        try:
            self._part.touch()
        except OSError as error:
            raise MuxingError(f"cannot write to {self._path.parent}: {error.strerror}") from error
        front = {"movflags": "+faststart"} if self._index_bytes is None else {"moov_size": str(self._index_bytes)}
        container: OutputContainer = self._av.open(
            str(self._part), "w", format="mp4", container_options={**front, **options}
        )
        return container

    def _append(self, data: bytes) -> None:
        with self._part.open("ab") as file:
            file.write(data)

    def finish(self) -> bytes:
        """Put the file in its place; returns no bytes. See `Mp4Writer.finish`."""
        super().finish()
        os.replace(self._part, self._path)
        return b""

    def _abandon(self) -> None:
        super()._abandon()
        self._part.unlink(missing_ok=True)
