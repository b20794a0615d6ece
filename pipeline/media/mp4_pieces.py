"""A finished mp4, index first, that leaves this process piece by piece while it is made: its front comes last."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pipeline.config import EncoderSettings
from pipeline.media.audio_in import AudioTrack
from pipeline.media.encoder import VideoFormat
from pipeline.media.encoder_select import EncoderSelector
from pipeline.media.mp4 import index_bytes
from pipeline.media.muxing import MuxedMp4

if TYPE_CHECKING:
    from av.container import OutputContainer

FRONT_BYTES_FIXED = 1024
"""What lies in front of the pictures in addition to the index: the file type, and the media data's header, corrected at the end."""


class _FrontAndBody:
    """A sink for FFmpeg that keeps the first bytes, which are written again at the end, and hands out the rest once.

    Args:
        front_bytes: How many bytes are kept.
    """

    def __init__(self, front_bytes: int) -> None:
        self.front = bytearray()
        self._front_bytes = front_bytes
        self._position = 0
        self._end = front_bytes
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep a copy of the bytes."""
        view = memoryview(data)
        size = len(view)
        kept = min(size, max(0, self._front_bytes - self._position))
        if kept:
            missing = self._position + kept - len(self.front)
            if missing > 0:
                self.front.extend(bytes(missing))
            self.front[self._position : self._position + kept] = view[:kept]
        if kept < size:
            if self._position + kept != self._end:
                raise io.UnsupportedOperation("bytes behind the front were handed out and cannot be written again")
            self._parts.append(bytes(view[kept:]))
            self._end += size - kept
        self._position += size
        return size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move within what was written."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        if base is None:
            raise io.UnsupportedOperation("only positions from the start")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._position

    def append(self, data: bytes) -> None:
        """Add bytes behind everything that was written."""
        self._position = len(self.front) if len(self.front) < self._front_bytes else self._end
        self.write(data)

    def take(self) -> bytes:
        """What came behind the front since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


class PiecewiseMp4Writer(MuxedMp4):
    """Implements `Mp4Writer`: `write` and `finish` return what lies behind the front, in order; then `front` is complete.

    `front` and everything returned after it are, byte for byte, the file that `MemoryMp4Writer` makes for the same number of
    pictures, but no process holds more of it than a few pictures and the front (about 1.6 MB for ten minutes).

    Args:
        video_format: Size, rate and colour of the pictures.
        voice: The sound, or None for a silent file.
        settings: Encoder settings.
        frames: How many pictures will come.
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
        frames: int,
        selector: EncoderSelector | None = None,
    ) -> None:
        self._index_bytes = index_bytes(frames, voice)
        self._sink = self._new_sink()
        super().__init__(video_format, voice, settings, "file", selector)

    @property
    def front_bytes(self) -> int:
        """Where in the file the first byte that `write` returns belongs."""
        return self._index_bytes + FRONT_BYTES_FIXED

    @property
    def front(self) -> bytes:
        """The first `front_bytes` of the file, all of it when it is shorter; final once `finish` has returned."""
        return bytes(self._sink.front)

    def _new_sink(self) -> _FrontAndBody:
        return _FrontAndBody(self.front_bytes)

    def _open_container(self, options: dict[str, str]) -> OutputContainer:
        self._sink = self._new_sink()
        container: OutputContainer = self._av.open(
            self._sink, "w", format="mp4", container_options={"moov_size": str(self._index_bytes), **options}
        )
        return container

    def _append(self, data: bytes) -> None:
        self._sink.append(data)

    def _take(self) -> bytes:
        return self._sink.take()
