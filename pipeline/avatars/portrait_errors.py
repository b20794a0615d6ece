"""Why a portrait is refused: one stable code per reason."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kernels.errors import InvalidInputError

PortraitCode = Literal[
    "portrait_unreadable",
    "portrait_unsupported",
    "portrait_animated",
    "portrait_too_large",
    "portrait_too_small",
    "portrait_no_face",
    "portrait_not_a_face",
    "portrait_two_faces",
    "portrait_turned_away",
    "portrait_cut_off",
    "portrait_eyes_closed",
    "portrait_mouth_open",
    "portrait_video_too_long",
]


class PortraitError(InvalidInputError):
    """A picture or video that cannot become a presenter; `field` is always `portrait`.

    Args:
        code: Stable reason; the last path segment of the problem+json `type`.
        got: What came, shortened.
        allowed: What would be accepted.
        detail: One sentence for a person: what is wrong and what to do.
    """

    def __init__(self, code: PortraitCode, got: str, allowed: str, detail: str) -> None:
        super().__init__("portrait", got, allowed, detail)
        self.code = code
        self.args = (code, got, allowed, detail)  # so that it survives pickling with this signature


def unreadable(path: Path, error: OSError) -> PortraitError:
    """For a file that the system does not let us read."""
    detail = f"{path.name} cannot be read ({error.strerror})"
    return PortraitError("portrait_unreadable", "an unreadable file", "a picture or a video", detail)
