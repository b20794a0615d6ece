"""Which crops make which video frame: the arithmetic of raising 25 frames/s to any rate, with holds. No pixels are touched here.

Crops `before` the chunk (its last one is the carry) and the crops of the chunk make the video frames whose positions lie in
(first - 1, last], where first and last are the chunk's own frames; without a carry, those in [first, last]. So every video frame is
made exactly once, as soon as the crops it needs exist, and how a clip is cut into chunks changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pipeline.clock import frames_before, frames_until, motion_position
from pipeline.types import CropBatch

CARRY = -1
"""Index of the crop before the chunk's first one."""


@dataclass(frozen=True)
class Slot:
    """Says of which crops one video frame is made.

    Attributes:
        left: Index of the earlier crop; `CARRY` for the one before the chunk.
        share: How far the picture lies from that crop towards the next one, 0..1; 0 shows the crop itself.
        position: Position of the picture in frames of motion; a held frame stands at the crop that it repeats.
    """

    left: int
    share: Fraction
    position: Fraction


def fill_slots(crops: CropBatch, before: CropBatch | None, fps: float) -> list[Slot]:
    """The video frames that a chunk of crops completes.

    Args:
        crops: The chunk; may be empty.
        before: The chunk before it; None where there is none. An empty one counts as none.
        fps: Frames per second of the video, 25 or more.

    Returns:
        The slots in order. Nothing is interpolated into a frame that is flagged, nor across a change of avatar or epoch, nor where
        frames are missing between the two chunks: there the earlier crop is repeated, or, when the avatars differ, the later one
        is shown early.
    """
    if not len(crops):
        return []
    if before is not None and not len(before):
        before = None
    first, last = crops.first_frame, crops.first_frame + len(crops) - 1
    begin = frames_before(first, fps) if before is None else frames_until(first - 1, fps)
    broken = _breaks(crops, before)
    slots = []
    for frame in range(begin, frames_until(last, fps)):
        position = motion_position(frame, fps)
        left, share = position.numerator // position.denominator - first, position % 1
        if share and broken[left + 1]:
            if left == CARRY and before is not None and before.avatar_id != crops.avatar_id:
                left += 1
            slots.append(Slot(left, Fraction(0), Fraction(first + left)))
        else:
            slots.append(Slot(left, share, position))
    return slots


def _breaks(crops: CropBatch, before: CropBatch | None) -> NDArray[np.bool_]:
    """Where nothing may be blended into a crop, bool (n,)."""
    broken = np.array(crops.hold, np.bool_)
    if before is not None:
        follows = (
            before.avatar_id == crops.avatar_id
            and before.epoch == crops.epoch
            and before.first_frame + len(before) == crops.first_frame
        )
        broken[0] |= not follows
    return broken
