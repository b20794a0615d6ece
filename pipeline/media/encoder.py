"""H.264 encoding behind one protocol: NV12 pictures in, packets out.

`encoder_select.EncoderSelector` opens one; `encoder_x264` and `encoder_nvenc` know the options of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from kernels.errors import InvalidInputError, LiveAnchorError, ShapeError
from kernels.nv12.colour import ColourName, colour_matrix
from pipeline.types import Nv12Canvas

if TYPE_CHECKING:
    from av import VideoFrame, VideoStream
    from av.packet import Packet
    from av.video.codeccontext import VideoCodecContext

    VideoPacket = Packet[VideoStream]

Purpose = Literal["file", "stream", "live"]
"""`file`: quality with look-ahead; `stream`: file quality, nothing held back; `live`: low latency, bounded rate."""

MIN_SIDE = 16
MAX_SIDE = 4096
LIMITED_RANGE = 1
"""FFmpeg's AVCOL_RANGE_MPEG."""
PICTURE_TYPE_I = 1


class EncoderError(LiveAnchorError):
    """The encoder could not be opened or failed while encoding."""

    code = "encoder_failed"


@dataclass(frozen=True)
class VideoFormat:
    """What a stream of pictures looks like.

    Attributes:
        width: Even, 16..4096.
        height: Even, 16..4096.
        fps: Frames per second, 1..120; a fraction for rates such as 60000/1001.
        colour: `bt709` or `bt601`, limited range; must be what the pictures were made with.
        max_nal_bytes: Largest slice of a `live` stream in bytes, 0 for any; only libx264 heeds it.

    Raises:
        InvalidInputError: A value outside its range.
    """

    width: int
    height: int
    fps: Fraction | int
    colour: ColourName = "bt709"
    max_nal_bytes: int = 0

    def __post_init__(self) -> None:
        for name, side in (("width", self.width), ("height", self.height)):
            if side % 2 or not MIN_SIDE <= side <= MAX_SIDE:
                raise InvalidInputError(name, str(side), f"an even number, {MIN_SIDE} to {MAX_SIDE}")
        if not 1 <= self.fps <= 120:
            raise InvalidInputError("fps", str(self.fps), "1 to 120")
        colour_matrix(self.colour)

    @property
    def rate(self) -> Fraction:
        """Frames per second as a fraction."""
        return Fraction(self.fps)

    def gop_frames(self, seconds: float) -> int:
        """Frames between key frames that are this many seconds apart, at least 1."""
        return max(1, round(float(self.rate) * seconds))


class VideoEncoder(Protocol):
    """A stream that is being encoded. Not thread safe; used by one thread at a time."""

    @property
    def codec_name(self) -> str:
        """FFmpeg's name, `libx264` or `h264_nvenc`."""
        ...

    def encode(self, canvas: Nv12Canvas, *, force_idr: bool = False, pts: int | None = None) -> list[VideoPacket]:
        """Encode one picture.

        Args:
            canvas: A picture of the stream's size. Its memory may be reused as soon as the call returns.
            force_idr: Make it a key frame that nothing later looks behind.
            pts: Frame number in units of 1 / fps, larger than every one before; one more than the last by default.

        Returns:
            Packets that became ready, in decoding order; may be empty.

        Raises:
            ShapeError: Another size or dtype.
            InvalidInputError: `pts` does not increase.
            EncoderError: The encoder failed.
        """
        ...

    def set_rate(self, kbps: int) -> None:
        """Change the bit rate of a `live` stream from the next picture on, without a key frame.

        Works below the rate that it was opened with (`EncoderSettings.live_kbps`); above, the encoder stays at that.
        """
        ...

    def flush(self) -> list[VideoPacket]:
        """End the stream and return what was held back; encode nothing afterwards."""
        ...

    def close(self) -> None:
        """Free the encoder; harmless when repeated."""
        ...


class AvVideoEncoder:
    """A `VideoEncoder` over a PyAV codec context; the two encoders differ in their options only.

    Args:
        context: Context of an H.264 encoder, not opened yet, standalone or belonging to a container's stream.
        video_format: Size, rate and colour.
        options: FFmpeg options of this encoder.
        gop_frames: Frames between key frames.
        threads: Encoder threads.

    Raises:
        EncoderError: It cannot be opened.
    """

    def __init__(
        self,
        context: VideoCodecContext,
        video_format: VideoFormat,
        options: dict[str, str],
        gop_frames: int,
        threads: int,
    ) -> None:
        import av

        self._av_error = av.error.FFmpegError
        self._context: VideoCodecContext | None = context
        self._format = video_format
        self._next_pts = 0
        self._codec_name = context.name
        context.width = video_format.width
        context.height = video_format.height
        context.pix_fmt = "nv12"
        context.framerate = video_format.rate
        context.time_base = 1 / video_format.rate
        context.gop_size = gop_frames
        context.thread_count = threads
        tag_colour(context, video_format.colour)
        context.options = options
        try:
            context.open()
        except (av.error.FFmpegError, ValueError) as error:
            raise EncoderError(
                f"{context.name} cannot be opened: {getattr(error, 'strerror', None) or error}"
            ) from error

    @property
    def codec_name(self) -> str:
        """FFmpeg's name of the encoder."""
        return self._codec_name

    def encode(self, canvas: Nv12Canvas, *, force_idr: bool = False, pts: int | None = None) -> list[VideoPacket]:
        """Implement `VideoEncoder.encode`."""
        if self._context is None:
            raise EncoderError("the encoder is closed")
        check_canvas(canvas, self._format)
        pts = self._next_pts if pts is None else pts
        if pts < self._next_pts:
            raise InvalidInputError("pts", str(pts), f"at least {self._next_pts}")
        frame = as_frame(canvas)
        frame.pts = pts
        frame.time_base = self._context.time_base
        if force_idr:
            frame.pict_type = PICTURE_TYPE_I
        try:
            packets = self._context.encode(frame)
        except self._av_error as error:
            raise EncoderError(f"{self._codec_name} failed: {error.strerror}") from error
        self._next_pts = pts + 1
        return packets

    def set_rate(self, kbps: int) -> None:
        """Implement `VideoEncoder.set_rate`. libavcodec hands a changed `bit_rate` to libx264 and NVENC with the next picture."""
        if self._context is not None:
            self._context.bit_rate = kbps * 1000

    def flush(self) -> list[VideoPacket]:
        """Implement `VideoEncoder.flush`."""
        if self._context is None:
            return []
        try:
            return self._context.encode(None)
        except self._av_error as error:
            raise EncoderError(f"{self._codec_name} failed: {error.strerror}") from error

    def close(self) -> None:
        """Implement `VideoEncoder.close`."""
        self._context = None


def standalone_context(codec_name: str) -> VideoCodecContext:
    """A codec context of its own, for packets that leave without a container (Annex B, headers in the stream).

    Raises:
        EncoderError: The linked FFmpeg has no such encoder.
    """
    import av

    try:
        return av.CodecContext.create(codec_name, "w")  # type: ignore[return-value]  # a video codec gives a video context
    except ValueError as error:
        raise EncoderError(f"{codec_name} is not part of the installed FFmpeg") from error


def tag_colour(context: VideoCodecContext, colour: str) -> None:
    """Write the colour standard into the stream: primaries, transfer, matrix (H.273 code points) and limited range."""
    code = colour_matrix(colour).h273_code
    context.color_range = LIMITED_RANGE
    context.color_primaries = code
    context.color_trc = code
    context.colorspace = code


def check_canvas(canvas: Nv12Canvas, video_format: VideoFormat) -> None:
    """Refuse a picture of another size or dtype.

    Raises:
        ShapeError: Saying what came and what is allowed.
    """
    h, w = video_format.height, video_format.width
    for name, plane, shape in (("y_plane", canvas.y_plane, (h, w)), ("uv_plane", canvas.uv_plane, (h // 2, w))):
        if plane.shape != shape or plane.dtype != np.uint8:
            raise ShapeError(name, f"{plane.dtype} {plane.shape}", f"uint8 {shape}")


def as_frame(canvas: Nv12Canvas) -> VideoFrame:
    """The picture as an NV12 frame that aliases its memory; read-only or oddly strided planes are copied."""
    import av

    planes = (canvas.y_plane, canvas.uv_plane)
    if all(plane.flags.writeable and plane.strides[1] == 1 and plane.strides[0] > 0 for plane in planes):
        return av.VideoFrame.from_dlpack(planes, format="nv12")
    return av.VideoFrame.from_numpy_buffer(np.concatenate(planes), format="nv12")
