"""Jaw and lips have speed: no snap, no missed closure, nothing else touched."""

import numpy as np
import pytest
import torch

from engines.mini.articulator_speed import MAX_STEP, MOUTH_POINTS, SHUT, aperture, limit_speed
from engines.mini.control_points import INDEX
from engines.motion_layout import EXP
from kernels.arrays import F32, F64
from tests.support.mesh import motion_of

REST: F32 = motion_of({}).numpy()[0]


def mouths(*openings: float, **others: float) -> F32:
    """One frame per opening, 0 shut to 1 wide open."""
    frames = [motion_of({"jaw_open": k, "lips_part": 0.5 * k, **others}) for k in openings]
    return np.asarray(torch.cat(frames).numpy(), np.float32)


def steps(before: F32, motion: F32) -> F64:
    shown = np.maximum(aperture(np.concatenate([before[None], motion])), 0.0)
    return np.abs(np.diff(shown))


def test_a_slow_mouth_is_left_alone_to_the_bit() -> None:
    slow = mouths(0.1, 0.2, 0.3, 0.35, 0.25, 0.12, 0.0)
    assert steps(REST, slow).max() < MAX_STEP
    np.testing.assert_array_equal(limit_speed(REST, slow), slow)


def test_a_snap_is_spread_over_frames() -> None:
    snap = mouths(0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)
    assert steps(REST, snap).max() > 3 * MAX_STEP, "the planted fault is there"
    slow = limit_speed(REST, snap)
    assert steps(REST, slow).max() <= MAX_STEP + 1e-6
    assert aperture(slow).max() > 2.5 * MAX_STEP, "the vowel is still open"


def test_a_closure_is_met_by_shutting_earlier() -> None:
    word = np.concatenate([mouths(0.4, 0.8, 1.0, 1.0), mouths(0.0, press=1.0), mouths(0.8, 1.0)])
    slow = limit_speed(mouths(0.2)[0], word)
    assert max(aperture(slow)[4], 0.0) == pytest.approx(0.0, abs=1e-6)
    assert (aperture(slow)[2:4] < aperture(word)[2:4] - 0.05).all(), "it begins to shut before"
    assert (aperture(slow)[5:] < aperture(word)[5:] - 0.05).all(), "and opens later"


@pytest.mark.parametrize("frames", [1, 2, 3, 5])
def test_of_a_long_closure_only_the_outermost_frames_are_given_up(frames: int) -> None:
    word = np.concatenate([mouths(0.5, 1.0, 1.0, 1.0), mouths(*[0.0] * frames), mouths(1.0, 1.0, 1.0, 0.5)])
    shut = aperture(limit_speed(mouths(0.4)[0], word))[4 : 4 + frames] < SHUT
    assert shut.sum() >= max(frames - 2, 1)
    assert shut[frames // 2]


def test_a_vowel_keeps_more_of_its_height_than_a_lower_envelope_would_leave() -> None:
    word = mouths(0.3, 0.3, 1.0, 0.3, 0.3)
    slow = aperture(limit_speed(mouths(0.3)[0], word))
    assert slow[2] > aperture(word)[1] + MAX_STEP + 0.02
    assert slow[1] > aperture(word)[1], "the frames beside it rise towards it"


def test_a_closure_in_a_windows_first_frame_comes_at_most_as_late_as_speed_asks() -> None:
    shown = mouths(0.5)[0]
    slow = limit_speed(shown, mouths(0.0, 0.0, 0.0, 0.0))
    frames = int(np.ceil(aperture(shown) / MAX_STEP))
    assert aperture(slow)[frames - 1] == pytest.approx(0.0, abs=1e-6)
    assert (np.diff(aperture(slow)) <= 1e-7).all()


def test_rounded_lips_count_by_their_own_width() -> None:
    oo = mouths(0.0, 0.5, pucker=1.0)
    assert aperture(oo)[1] > 1.4 * aperture(mouths(0.5))[0]
    assert steps(REST, limit_speed(REST, oo)).max() <= MAX_STEP + 1e-6


def test_lids_gaze_brows_and_head_keep_their_speed() -> None:
    snap = mouths(0.0, 1.0)
    snap[1] += motion_of({"blink_right": 1.0, "gaze_x": 1.0, "brow_raise": 1.0}).numpy()[0] - REST
    snap[1, : EXP.start] += 0.3
    slow = limit_speed(REST, snap)
    mouth = {EXP.start + 3 * INDEX[name] + axis for name in MOUTH_POINTS for axis in range(3)}
    others = [k for k in range(snap.shape[1]) if k not in mouth]
    np.testing.assert_array_equal(slow[:, others], snap[:, others])
    assert not np.array_equal(slow[1], snap[1])


def test_every_shape_lies_between_shapes_that_were_commanded() -> None:
    snap = mouths(1.0, 0.0, 1.0, smile=0.4)
    columns = slice(EXP.start, EXP.stop)
    low = np.minimum(snap.min(0), mouths(0.0)[0])[columns]
    high = np.maximum(snap.max(0), mouths(0.0)[0])[columns]
    slow = limit_speed(mouths(0.0)[0], snap)[:, columns]
    assert (slow >= low - 1e-6).all() and (slow <= high + 1e-6).all()


def test_wild_motion_keeps_the_speed_too() -> None:
    rng = np.random.default_rng(5)
    wild = REST + np.zeros((40, 265), np.float32)
    wild[:, EXP] = rng.normal(0, 0.12, (40, 63))
    slow = limit_speed(REST, wild.astype(np.float32))
    assert np.isfinite(slow).all()
    assert steps(REST, slow).max() <= MAX_STEP + 1e-4


def test_the_input_is_not_written_to() -> None:
    snap = mouths(0.0, 1.0)
    before = snap.copy()
    limit_speed(REST, snap)
    np.testing.assert_array_equal(snap, before)
