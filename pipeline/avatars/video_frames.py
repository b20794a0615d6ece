"""Decoded video frames as they are meant to be seen: square pixels, upright, not mirrored, whole pictures, sRGB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import cv2
import numpy as np

from kernels.arrays import U8
from pipeline.avatars.colour import needs_conversion, to_srgb
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.portrait_header import STUDIO_GREY, sniff
from pipeline.media.file_ends import end_of_file
from pipeline.media.scanned_file import ScannedFile

if TYPE_CHECKING:
    import av

DEMUXERS: Final = {"MP4": "mov", "MKV": "matroska"}
MAX_FRAME_PIXELS: Final = 4096 * 2304
MAX_PIXEL_ASPECT: Final = 4
HD_HEIGHT: Final = 720
"""From here on pictures that name no matrix are BT.709, smaller ones BT.601, as players take them."""
ASSUMED_FPS: Final = 25
CLOCK_STEP_S: Final = 10.0
"""A step back by more is a clock that was set anew."""
_SNIFF_BYTES: Final = 64
_RGB_MATRIX, _UNKNOWN_MATRIX, _BT2020_CONSTANT = 0, 2, 10
_FULL_RANGE: Final = 2


@dataclass(frozen=True)
class ShownFrame:
    """A decoded frame and what its stream says of it.

    Attributes:
        frame: As decoded.
        pixel_aspect: Width of a pixel by its height.
    """

    frame: av.VideoFrame
    pixel_aspect: Fraction

    def rgb(self) -> U8:
        """uint8 (h, w, 3), RGB, C-contiguous, as a player shows it."""
        pixels = _over_grey(_rgb(self.frame), self.frame)
        if self.frame.interlaced_frame and len(pixels) >= 4:
            size = pixels.shape[1], pixels.shape[0]
            pixels = np.asarray(cv2.resize(np.ascontiguousarray(pixels[::2]), size), np.uint8)
        pixels = _square(pixels, self.pixel_aspect)
        return np.ascontiguousarray(_upright(pixels, self.frame))


@contextmanager
def opened_video(stream: BinaryIO, allowed: str) -> Iterator[av.container.InputContainer]:
    """Open an MP4/MOV or Matroska/WebM file, with the demuxer named, so that a disguised playlist reaches no other file.

    Args:
        stream: The file, at its start.
        allowed: What an error says would be accepted.

    Raises:
        PortraitError: `portrait_unreadable` or `portrait_unsupported` (also for several videos in one file), also while the caller
            decodes.
    """
    import av

    kind = sniff(stream.read(_SNIFF_BYTES))
    if kind not in DEMUXERS:
        raise PortraitError("portrait_unsupported", kind, allowed, f"{kind} is not a supported video")
    try:
        whole = ScannedFile(stream)
        end = end_of_file(whole, 0)
        if end is not None and sniff(whole.bytes_at(end, _SNIFF_BYTES)) in DEMUXERS:
            got = f"several videos in one file, the second at byte {end}"
            raise PortraitError("portrait_unsupported", got, allowed, f"the file holds {got}; send one of them")
        stream.seek(0)
        with av.open(stream, mode="r", format=DEMUXERS[kind], metadata_errors="ignore") as container:
            if not any(not _is_cover(stream) for stream in container.streams.video):
                raise PortraitError("portrait_unreadable", "no picture", allowed, "the file holds no video")
            yield container
    except (av.FFmpegError, ValueError, OSError, EOFError) as error:
        detail = f"the video is damaged or cut short ({str(error)[:100]})"
        raise PortraitError("portrait_unreadable", f"a damaged {kind}", allowed, detail) from error


def shown_frames(container: av.container.InputContainer) -> Iterator[tuple[float, ShownFrame]]:
    """Decode the first video stream.

    Yields:
        Seconds since the first frame, never falling, and the frame. A frame without a time, or behind a clock that was set anew,
        follows the one before by 40 ms; one that is only late in order has that one's time.

    Raises:
        PortraitError: `portrait_too_large`, or `portrait_unsupported` for a pixel that is far from square.
    """
    stream = next(stream for stream in container.streams.video if not _is_cover(stream))
    _check_size(stream.codec_context.width, stream.codec_context.height)
    aspect = Fraction(stream.sample_aspect_ratio or 1)
    if not Fraction(1, MAX_PIXEL_ASPECT) <= aspect <= MAX_PIXEL_ASPECT:
        raise PortraitError(
            "portrait_unsupported",
            f"pixels of {aspect.numerator}:{aspect.denominator}",
            f"pixels of 1:{MAX_PIXEL_ASPECT} to {MAX_PIXEL_ASPECT}:1",
            "the video says that its pixels are far from square; write it again with square ones",
        )
    zero: float | None = None
    shown_s = 0.0
    for number, frame in enumerate(container.decode(stream)):
        _check_size(frame.width, frame.height)
        step_s = 1.0 / ASSUMED_FPS if number else 0.0
        raw_s = frame.time
        if raw_s is None:
            shown_s += step_s
        else:
            if zero is None or raw_s - zero < shown_s - CLOCK_STEP_S:
                zero = raw_s - shown_s - step_s
            shown_s = max(shown_s, raw_s - zero)
        yield shown_s, ShownFrame(frame, aspect)


def open_file(video: Path | bytes, max_bytes: int, allowed: str) -> BinaryIO:
    """The content as a file, after the check of its size.

    Raises:
        PortraitError: `portrait_too_large` or `portrait_unreadable`.
    """
    import io

    try:
        size = len(video) if isinstance(video, bytes) else video.stat().st_size
        if size > max_bytes:
            got = f"{size / 2**20:.0f} MiB"
            raise PortraitError("portrait_too_large", got, allowed, f"the video has {got}; send a shorter one")
        return io.BytesIO(video) if isinstance(video, bytes) else video.open("rb")
    except OSError as error:
        raise PortraitError("portrait_unreadable", "an unreadable file", allowed, f"{error.strerror}") from error


def _is_cover(stream: av.VideoStream) -> bool:
    import av

    return bool(stream.disposition & av.stream.Disposition.attached_pic)


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_FRAME_PIXELS:
        got = f"{width}x{height} px"
        raise PortraitError(
            "portrait_too_large", got, f"up to {MAX_FRAME_PIXELS} pixels", f"frames of {got} are too large"
        )


def _rgb(frame: av.VideoFrame) -> U8:
    """R'G'B' by the frame's own matrix and range, then sRGB by its transfer and primaries."""
    from av.video.reformatter import ColorRange, Colorspace

    matrix = int(frame.colorspace)
    if matrix == _UNKNOWN_MATRIX:
        matrix = Colorspace.ITU709 if frame.height >= HD_HEIGHT else Colorspace.ITU601
    elif matrix == _BT2020_CONSTANT:
        matrix = Colorspace.BT2020
    full = frame.color_range == _FULL_RANGE or frame.format.name.startswith("yuvj") or matrix == _RGB_MATRIX
    primaries, transfer = int(frame.color_primaries), int(frame.color_trc)
    other = needs_conversion(primaries, transfer)
    pixels = frame.to_ndarray(
        format="rgb48le" if other else "rgb24",
        src_colorspace=matrix,
        src_color_range=ColorRange.JPEG if full else ColorRange.MPEG,
        dst_color_range=ColorRange.JPEG,
    )
    return to_srgb(np.asarray(pixels, np.uint16), primaries, transfer) if other else np.asarray(pixels, np.uint8)


def _over_grey(pixels: U8, frame: av.VideoFrame) -> U8:
    """What is transparent becomes the grey that it becomes in a still."""
    if not any(component.is_alpha for component in frame.format.components):
        return pixels
    alpha = frame.to_ndarray(format="rgba")[..., 3:].astype(np.float32) / np.float32(255)
    grey = np.asarray(STUDIO_GREY, np.float32)
    return np.asarray(np.rint(grey + (pixels.astype(np.float32) - grey) * alpha), np.uint8)


def _square(pixels: U8, aspect: Fraction) -> U8:
    """Stretch the axis that is too short; shrink the other where the picture would become too large."""
    if aspect == 1:
        return pixels
    height, width = pixels.shape[:2]
    wide, high = (width * aspect, Fraction(height)) if aspect > 1 else (Fraction(width), height / aspect)
    if wide * high > MAX_FRAME_PIXELS:
        wide, high = (Fraction(width), height / aspect) if aspect > 1 else (width * aspect, Fraction(height))
    size = max(1, round(wide)), max(1, round(high))
    smaller = size[0] * size[1] < width * height
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR))


def _upright(pixels: U8, frame: av.VideoFrame) -> U8:
    """Turn and mirror as the display matrix says: x' = a x + c y, y' = b x + d y."""
    from av.sidedata.sidedata import Type

    side = frame.side_data.get(Type.DISPLAYMATRIX)  # type: ignore[call-overload]  # PyAV's container takes its own keys
    if side is None:
        return pixels
    a, b, _, c, d = np.frombuffer(bytes(side), np.int32)[:5].astype(np.int64)
    if abs(a) + abs(d) < abs(b) + abs(c):
        pixels, a, d = pixels.transpose(1, 0, 2), c, b
    if a < 0:
        pixels = pixels[:, ::-1]
    return pixels[::-1] if d < 0 else pixels
