"""The frames of a clip that an avatar moves as in: at 25 frames/s, fitted to the canvas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kernels.arrays import U8
from pipeline.avatars.face_crop import fit_canvas
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.video_frames import open_file, opened_video, shown_frames
from pipeline.avatars.video_still import MAX_VIDEO_BYTES
from pipeline.types import MOTION_FPS

DEFAULT_MAX_FRAMES: Final = 250
"""10 s. A frame of 1080x1920 takes 6 MB of canvas and 4 MB of features in the bundle."""
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
    with open_file(video, MAX_VIDEO_BYTES, _ALLOWED) as stream, opened_video(stream, _ALLOWED) as container:
        canvases = ((time_s, fit_canvas(frame.rgb())) for time_s, frame in shown_frames(container))
        yield from _at_motion_rate(canvases, max_frames)


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
