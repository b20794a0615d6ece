"""A finished mp4 (H.264 + AAC), index first, in memory or at a path that the caller names."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.audio_in import AudioTrack
from pipeline.config import EncoderSettings
from pipeline.encoder import VideoFormat
from pipeline.encoder_select import EncoderSelector
from pipeline.muxing import MuxedMp4, MuxingError

if TYPE_CHECKING:
    from av.container import OutputContainer


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
    ) -> None:
        self._buffer = _NamedBuffer()
        super().__init__(video_format, voice, settings, "file", selector)

    def _open_container(self, options: dict[str, str]) -> OutputContainer:
        buffer = self._buffer = _NamedBuffer()
        container: OutputContainer = self._av.open(
            buffer,
            "w",
            format="mp4",
            container_options={"movflags": "+faststart", **options},
            io_open=lambda url, flags, options: io.BytesIO(buffer.getvalue()),
        )
        return container

    def finish(self) -> bytes:
        """The whole file. See `Mp4Writer.finish`."""
        super().finish()
        return self._buffer.getvalue()


class PathMp4Writer(MuxedMp4):
    """Implements `Mp4Writer` on disk: the file appears at its path, complete, when `finish` returns.

    Args:
        path: Where; an existing file is replaced at the end. Its folder must exist.
        video_format: Size, rate and colour of the pictures.
        voice: The sound, or None for a silent file.
        settings: Encoder settings.
        selector: Opens encoders; the process-wide one by default.

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
    ) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        super().__init__(video_format, voice, settings, "file", selector)

    def _open_container(self, options: dict[str, str]) -> OutputContainer:
        try:
            self._part.touch()
        except OSError as error:
            raise MuxingError(f"cannot write to {self._path.parent}: {error.strerror}") from error
        container: OutputContainer = self._av.open(
            str(self._part), "w", format="mp4", container_options={"movflags": "+faststart", **options}
        )
        return container

    def finish(self) -> bytes:
        """Put the file in its place; returns no bytes. See `Mp4Writer.finish`."""
        super().finish()
        os.replace(self._part, self._path)
        return b""

    def _abandon(self) -> None:
        super()._abandon()
        self._part.unlink(missing_ok=True)
