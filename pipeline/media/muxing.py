"""What every mp4 writer does: encode pictures and the voice, keep them side by side, end at the exact length."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from math import lcm
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from kernels.errors import LiveAnchorError
from pipeline.config import EncoderSettings
from pipeline.media.audio_in import AudioTrack
from pipeline.media.encoder import Purpose, VideoFormat
from pipeline.media.encoder_select import EncoderSelector, default_selector
from pipeline.media.provenance import COMMENT, xmp_box
from pipeline.media.voice_feed import VoiceFeed
from pipeline.types import Nv12Canvas

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.video.codeccontext import VideoCodecContext
    from av.video.stream import VideoStream

AUDIO_LEAD_FRAMES = 2
"""AAC frames by which the voice runs ahead of the picture, so that the muxer never waits for it."""
MAX_TIMESCALE = 2**31 - 1


class MuxingError(LiveAnchorError):
    """The file could not be put together."""

    code = "muxing_failed"


class Mp4Writer(Protocol):
    """Pictures in, an mp4 out. The file is everything returned by `write` and then `finish`, in that order."""

    def write(self, canvas: Nv12Canvas) -> bytes:
        """Add the next picture.

        Args:
            canvas: A picture of the writer's size; its memory may be reused as soon as the call returns.

        Returns:
            Bytes of the file that became ready; empty unless the writer streams.

        Raises:
            ShapeError: Another size or dtype.
            EncoderError: The encoder failed.
            MuxingError: Already finished, or the container refuses.
        """
        ...

    def finish(self) -> bytes:
        """Write what is left of the voice and end the file.

        Returns:
            The remaining bytes.

        Raises:
            MuxingError: No picture was written, already finished, or the container refuses.
            EncoderError: The encoder failed.
        """
        ...

    def close(self) -> None:
        """Give up without a file, or do nothing after `finish`; harmless when repeated."""
        ...


class MuxedMp4(ABC):
    """Base of the mp4 writers.

    Args:
        video_format: Size, rate and colour of the pictures.
        voice: The sound, or None for a silent file. Its first sample belongs to the start of the first picture.
        settings: Encoder settings.
        purpose: What to tune the encoder for.
        selector: Opens encoders; the process-wide one by default.

    Raises:
        EncoderError: No encoder can be opened.
        InvalidInputError: The voice has a rate that AAC does not know, or no samples.
        ShapeError: The voice has a wrong shape or dtype.
    """

    MIN_VOICE_RATE_HZ = 0
    """A voice with a lower rate is brought to 48 kHz."""

    def __init__(
        self,
        video_format: VideoFormat,
        voice: AudioTrack | None,
        settings: EncoderSettings,
        purpose: Purpose,
        selector: EncoderSelector | None,
    ) -> None:
        import av

        self._av = av
        self._format = video_format
        self._voice = None if voice is None else VoiceFeed(voice, self.MIN_VOICE_RATE_HZ)
        self._voice_rate_hz = 0 if self._voice is None else self._voice.rate_hz
        self._container: OutputContainer | None = None
        self._frames = 0
        self._voice_written = 0
        try:
            self._encoder = (selector or default_selector()).open(
                video_format, purpose, settings, self._new_video_stream
            )
            self._audio = self._new_audio_stream(self._voice, settings) if self._voice is not None else None
        except LiveAnchorError:
            self._abandon()
            raise

    @abstractmethod
    def _open_container(self, options: dict[str, str]) -> OutputContainer:
        """Open the output with the given muxer options and the writer's own."""

    def write(self, canvas: Nv12Canvas) -> bytes:
        """Implement `Mp4Writer.write`."""
        container = self._opened()
        try:
            for packet in self._encoder.encode(canvas):
                packet.stream = self._video
                container.mux(packet)
            self._frames += 1
            self._write_voice(Fraction(self._frames) / self._format.rate)
        except self._av.error.FFmpegError as error:
            raise MuxingError(f"cannot write picture {self._frames}: {error.strerror}") from error
        return self._take()

    def finish(self) -> bytes:
        """Implement `Mp4Writer.finish`."""
        container = self._opened()
        if self._frames == 0:
            raise MuxingError("a file needs at least one picture")
        try:
            for packet in self._encoder.flush():
                packet.stream = self._video
                container.mux(packet)
            self._write_voice(None)
            self._encoder.close()
            container.close()
        except self._av.error.FFmpegError as error:
            raise MuxingError(f"cannot finish the file: {error.strerror}") from error
        self._container = None
        self._append(xmp_box())
        return self._take()

    def close(self) -> None:
        """Implement `Mp4Writer.close`."""
        self._encoder.close()
        self._abandon()

    def __enter__(self) -> Self:
        """Use as a context manager: leaving it closes."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    @abstractmethod
    def _append(self, data: bytes) -> None:
        """Put a box behind the finished file, where its kind allows that."""

    def _take(self) -> bytes:
        """Bytes that became ready since the last call."""
        return b""

    def _abandon(self) -> None:
        """Drop an unfinished container."""
        container, self._container = self._container, None
        if container is not None:
            try:
                container.close()
            except self._av.error.FFmpegError:
                return  # a file that is not wanted any more could not be ended properly

    def _opened(self) -> OutputContainer:
        if self._container is None:
            raise MuxingError("the file is already finished or closed")
        return self._container

    def _new_video_stream(self, codec_name: str) -> VideoCodecContext:
        """A fresh container with an unopened video stream; called again when the first encoder does not open."""
        self._abandon()
        timescale = lcm(self._format.rate.numerator, self._voice_rate_hz or 1)
        options = {"movie_timescale": str(timescale)} if timescale <= MAX_TIMESCALE else {}
        self._container = self._open_container(options)
        self._container.metadata["comment"] = COMMENT
        self._video: VideoStream = self._container.add_stream(codec_name, rate=self._format.rate)  # type: ignore[assignment]  # a video codec gives a video stream
        return self._video.codec_context

    def _new_audio_stream(self, voice: VoiceFeed, settings: EncoderSettings) -> AudioStream:
        layout = "stereo" if voice.channels == 2 else "mono"
        stream = self._opened().add_stream("aac", rate=self._voice_rate_hz, layout=layout)
        stream.codec_context.bit_rate = settings.aac_kbps * 1000
        stream.codec_context.time_base = Fraction(1, self._voice_rate_hz)
        return stream

    def _write_voice(self, until_s: Fraction | None) -> None:
        """Encode the voice up to a time plus a small lead, or all of it and flush when None."""
        if self._audio is None or self._voice is None:
            return
        size = self._audio.codec_context.frame_size or 1024
        target = None if until_s is None else int(until_s * self._voice_rate_hz) + AUDIO_LEAD_FRAMES * size
        while target is None or self._voice_written + size <= target:
            block = self._voice.read(size)
            if not len(block):
                break
            frame = self._av.AudioFrame.from_ndarray(
                np.ascontiguousarray(block.T), format="fltp", layout=self._audio.codec_context.layout.name
            )
            frame.sample_rate = self._voice_rate_hz
            frame.pts, frame.time_base = self._voice_written, Fraction(1, self._voice_rate_hz)
            self._opened().mux(self._audio.encode(frame))
            self._voice_written += len(block)
        if until_s is None:
            self._opened().mux(self._audio.encode(None))
