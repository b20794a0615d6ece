"""The frames of a template video at 25 frames/s, fitted to the canvas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from kernels.arrays import U8
from pipeline.avatars.face_crop import fit_canvas
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.portrait_header import sniff
from pipeline.avatars.video_still import DEMUXERS, MAX_FRAME_PIXELS, open_video
from pipeline.types import MOTION_FPS

DEFAULT_MAX_FRAMES: Final = 250
"""10 s. A frame of 1080x1920 takes 6 MB of canvas and 4 MB of features in the bundle."""
_SNIFF_BYTES: Final = 64
_ALLOWED: Final = "an MP4 or WebM video"


def template_frames(video: Path | bytes, max_frames: int = DEFAULT_MAX_FRAMES) -> Iterator[U8]:
    """Decode a video at 25 frames/s: the frame shown at every multiple of 40 ms.

    Args:
        video: The file or its content.
        max_frames: Stop after so many.

    Yields:
        uint8 (h, w, 3), RGB, upright, even sides, all of one size.

    Raises:
        PortraitError: `portrait_unreadable`, `portrait_unsupported` or `portrait_too_large`.
    """
    import av

    with open_video(video) as stream:
        kind = sniff(stream.read(_SNIFF_BYTES))
        stream.seek(0)
        if kind not in DEMUXERS:
            raise PortraitError("portrait_unsupported", kind, _ALLOWED, f"{kind} is not a supported video")
        try:
            with av.open(stream, mode="r", format=DEMUXERS[kind], metadata_errors="ignore") as container:
                yield from _at_motion_rate(_decode(container), max_frames)
        except (av.FFmpegError, ValueError, EOFError) as error:
            detail = f"the video is damaged or cut short ({str(error)[:100]})"
            raise PortraitError("portrait_unreadable", f"a damaged {kind}", _ALLOWED, detail) from error


def _decode(container: object) -> Iterator[tuple[float, U8]]:
    """(seconds since the first frame, upright canvas) of every frame."""
    import av

    assert isinstance(container, av.container.InputContainer)  # noqa: S101 - narrows the type for the checker
    if not container.streams.video:
        raise PortraitError("portrait_unreadable", "no picture", _ALLOWED, "the file holds no video")
    first_s: float | None = None
    for index, frame in enumerate(container.decode(container.streams.video[0])):
        if frame.width * frame.height > MAX_FRAME_PIXELS:
            got = f"{frame.width}x{frame.height} px"
            raise PortraitError("portrait_too_large", got, f"up to {MAX_FRAME_PIXELS} pixels", f"{got} are too large")
        time_s = frame.time if frame.time is not None else index / MOTION_FPS
        first_s = time_s if first_s is None else first_s
        pixels = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90) % 4)
        yield time_s - first_s, fit_canvas(np.ascontiguousarray(pixels))


def _at_motion_rate(frames: Iterator[tuple[float, U8]], max_frames: int) -> Iterator[U8]:
    """Hold every frame until the next one's time; the last one is shown once."""
    made, shown = 0, None
    for time_s, rgb in frames:
        while shown is not None and made < max_frames and made / MOTION_FPS < time_s - 1e-6:
            yield shown
            made += 1
        if made >= max_frames:
            return
        if shown is not None and rgb.shape != shown.shape:
            got = f"frames of {shown.shape[:2]} and {rgb.shape[:2]}"
            raise PortraitError(
                "portrait_unsupported", got, "frames of one size", "the frame size changes in the video"
            )
        shown = rgb
    if shown is not None and made < max_frames:
        yield shown
