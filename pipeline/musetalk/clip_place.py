"""Which frame of an avatar's clip a frame of the session shows: to and fro, and each end once."""

from __future__ import annotations

from pipeline.live.loop_choice import mirrored

ENDS_TWICE = False


def clip_place(frame: int, count: int) -> int:
    """Frame of a clip of `count` frames: 0 1 2 1 0 1 ... for 3; one for all where it is a picture. Live loops turn the same way."""
    return mirrored(frame, count, ends_twice=ENDS_TWICE)
