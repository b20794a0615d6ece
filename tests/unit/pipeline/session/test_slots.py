"""Which crops make which video frame: positions, holds, cuts, chunks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from kernels.arrays import U8
from pipeline.clock import frame_count, frames_before, frames_until, motion_position, rate_of
from pipeline.session.slots import CARRY, Slot, fill_slots
from pipeline.types import CropBatch

HALF = Fraction(1, 2)


def batch(n: int, first: int = 0, hold: tuple[int, ...] = (), avatar: str = "a", epoch: int = 0) -> CropBatch:
    flags = np.zeros(n, np.bool_)
    flags[list(hold)] = True
    crops: U8 = np.zeros((n, 1, 1, 3), np.uint8)
    return CropBatch(crops, flags, avatar, first, epoch)


def shown(slots: list[Slot], first: int = 0) -> list[Fraction]:
    """Absolute position of what is seen, which for a hold is the repeated frame."""
    return [first + slot.left + slot.share for slot in slots]


def test_without_a_carry_a_chunk_begins_at_its_first_frame() -> None:
    slots = fill_slots(batch(3), None, 50)
    assert shown(slots) == [0, HALF, 1, 1 + HALF, 2]
    assert [slot.position for slot in slots] == shown(slots)


def test_with_a_carry_it_begins_midway_before() -> None:
    slots = fill_slots(batch(2, 8), batch(8), 50)
    assert shown(slots, 8) == [7 + HALF, 8, 8 + HALF, 9] and slots[0].left == CARRY


def test_a_flag_repeats_the_frame_before() -> None:
    slots = fill_slots(batch(4, hold=(0, 2)), None, 50)
    assert shown(slots) == [0, HALF, 1, 1, 2, 2 + HALF, 3]
    assert slots[3].position == 1, "what stands still stands still as a whole"


@pytest.mark.parametrize(
    "before",
    [batch(8, epoch=1), batch(7), batch(8, first=1), batch(1, first=3)],
    ids=["interruption", "a frame is missing", "overlap", "old carry"],
)
def test_what_does_not_follow_is_never_blended(before: CropBatch) -> None:
    slots = fill_slots(batch(2, 8), before, 50)
    assert slots[0] == Slot(CARRY, Fraction(0), Fraction(7)) and len(slots) == 4


def test_another_avatar_is_shown_early_instead_of_the_old_one_in_the_wrong_canvas() -> None:
    slots = fill_slots(batch(2, 8, avatar="b"), batch(8), 50)
    assert slots[0] == Slot(0, Fraction(0), Fraction(8))
    assert fill_slots(batch(2, 8, avatar="b"), batch(8), 25)[0] == Slot(0, Fraction(0), Fraction(8))


def test_nothing_makes_nothing() -> None:
    assert fill_slots(batch(0, 8), batch(8), 50) == []
    assert fill_slots(batch(1, 8), batch(0), 50) == [Slot(0, Fraction(0), Fraction(8))]


@pytest.mark.parametrize("fps", [25, 50, 59.94])
@pytest.mark.parametrize("size", [1, 4, 8, 16, 25])
def test_cutting_changes_nothing_and_no_frame_is_made_twice(fps: float, size: int) -> None:
    total, hold = 60, (0, 13, 16, 40)
    whole = fill_slots(batch(total, hold=hold), None, fps)
    assert len(whole) == frames_until(total - 1, fps)
    assert [slot.position for slot in whole if slot.share] == [
        motion_position(j, fps) for j, slot in enumerate(whole) if slot.share
    ]
    parts: list[Fraction] = []
    before = None
    for first in range(0, total, size):
        n = min(size, total - first)
        chunk = batch(n, first, tuple(h - first for h in hold if first <= h < first + n))
        parts += shown(fill_slots(chunk, before, fps), first)
        before = chunk
    assert parts == shown(whole)


def test_59_94_is_60000_over_1001() -> None:
    assert rate_of(59.94) == Fraction(60_000, 1001) and rate_of(50) == 50
    assert motion_position(2400, 59.94) == 1001
    assert [frame_count(n, 59.94) for n in (1, 16_000, 16_016 * 5)] == [1, 60, 300]
    assert frame_count(16_016 * 5 + 1, 59.94) == 301
    assert frames_before(0, 59.94) == 0 and frames_until(0, 59.94) == 1 and frames_until(-1, 50) == 0
    slots = fill_slots(batch(3), None, 59.94)
    assert [slot.share for slot in slots][:3] == [0, Fraction(1001, 2400), Fraction(1001, 1200)]
