"""One picture of a finished file."""

from __future__ import annotations

import io
from typing import BinaryIO, Final

import av
from PIL import Image

from kernels.errors import LiveAnchorError, first_line

LARGEST: Final = 512
QUALITY: Final = 85


class NoPictureError(LiveAnchorError):
    """No picture of a finished file can be read.

    Args:
        reason: What the decoder said.
    """

    code = "internal_error"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line what the decoder said."""
        return f"no picture of the file can be read: {self.reason}"


def thumbnail(file: BinaryIO, largest: int = LARGEST) -> bytes:
    """Make a JPEG of the first picture of an mp4.

    Args:
        file: The mp4; it can seek.
        largest: Most pixels of the longer side; smaller pictures keep their size.

    Raises:
        NoPictureError: There is none.
    """
    try:
        with av.open(file, "r") as container:
            frame = next(container.decode(video=0), None)
    except (av.FFmpegError, IndexError) as error:
        raise NoPictureError(first_line(error)) from error
    if frame is None:
        raise NoPictureError("there is none")
    picture = Image.fromarray(frame.to_ndarray(format="rgb24"))
    picture.thumbnail((largest, largest), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()
