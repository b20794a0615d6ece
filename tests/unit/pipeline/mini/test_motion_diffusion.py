from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.mini.load import make_engines, random_networks
from engines.mini.motion_space import rest_motion
from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline.mini.load import make_speech_stages
from pipeline.mini.motion_diffusion import MotionDiffusion, initial_carry
from pipeline.stages import CarryError, MotionItem
from pipeline.types import FeatureRows

REST: F32 = rest_motion().numpy()


@pytest.fixture(scope="module")
def stage() -> MotionDiffusion:
    return make_speech_stages(make_engines(random_networks()))[1]


def feature_rows(count: int, first_row: int = 0, seed: int = 0) -> FeatureRows:
    rows = np.random.default_rng(seed).standard_normal((count, 128)).astype(np.float32)
    return FeatureRows(rows, 50, first_row)


def motion_of(stage: MotionDiffusion, rows: FeatureRows, seed: int = 7) -> F32:
    return stage.step(rows, initial_carry(seed, REST), final=True)[0].motion


@pytest.mark.parametrize("rows", [0, 2, 16, 18, 64])
def test_one_frame_per_two_rows(stage: MotionDiffusion, rows: int) -> None:
    motion = motion_of(stage, feature_rows(rows))
    assert motion.shape == (rows // 2, 265) and np.isfinite(motion).all()


@pytest.mark.parametrize("piece", [1, 2, 5, 16, 33])
def test_pieces_and_whole_give_the_same_bits(stage: MotionDiffusion, piece: int) -> None:
    rows = feature_rows(50)
    carry, made = initial_carry(7, REST), []
    for start in range(0, 50, piece):
        chunk, carry = stage.step(FeatureRows(rows.rows[start : start + piece], 50, start), carry)
        made.append(chunk.motion)
    chunk, carry = stage.step(feature_rows(0, 50), carry, final=True)
    np.testing.assert_array_equal(np.concatenate([*made, chunk.motion]), motion_of(stage, rows))
    assert carry.next_frame == 25


def test_the_seed_alone_decides_what_is_left_to_chance(stage: MotionDiffusion) -> None:
    rows = feature_rows(32)
    np.testing.assert_array_equal(motion_of(stage, rows, 1), motion_of(stage, rows, 1))
    assert not np.array_equal(motion_of(stage, rows, 1), motion_of(stage, rows, 2))


def test_motion_starts_near_the_pose_that_is_shown(stage: MotionDiffusion) -> None:
    shown = REST.copy()
    shown[202:] = 0.3
    motion = stage.step(feature_rows(16), initial_carry(7, shown), final=True)[0].motion
    jump = np.abs(motion[0] - shown).max()
    assert jump < np.abs(motion - shown).max(), "the first frame is the closest to the pose that was shown"


def test_a_carry_moves_on_in_another_replica(stage: MotionDiffusion) -> None:
    other = make_speech_stages(make_engines(random_networks()))[1]
    rows = feature_rows(32)
    first, carry = stage.step(FeatureRows(rows.rows[:16], 50, 0), initial_carry(7, REST))
    second, _ = other.step(FeatureRows(rows.rows[16:], 50, 16), carry, final=True)
    np.testing.assert_array_equal(np.concatenate([first.motion, second.motion]), motion_of(stage, rows))


def test_batched_sessions_do_not_touch_each_other(stage: MotionDiffusion) -> None:
    items = [MotionItem(feature_rows(n, seed=n), initial_carry(n, REST), True) for n in (4, 16, 40)]
    for item, result in zip(items, stage.steps(items), strict=True):
        assert not isinstance(result, Exception)
        np.testing.assert_allclose(result[0].motion, motion_of(stage, item.rows, item.carry.seed), atol=2e-3)


def test_a_bad_item_fails_alone(stage: MotionDiffusion) -> None:
    good = MotionItem(feature_rows(16), initial_carry(1, REST), True)
    results = stage.steps([MotionItem(feature_rows(16, first_row=4), initial_carry(1, REST)), good])
    assert isinstance(results[0], CarryError) and not isinstance(results[1], Exception)


def test_carries_of_other_weights_and_finished_ones_are_refused(stage: MotionDiffusion) -> None:
    _, carry = stage.step(feature_rows(16), initial_carry(1, REST))
    with pytest.raises(CarryError, match="other"):
        stage.step(feature_rows(2, 16), replace(carry, version="other"))
    _, carry = stage.step(feature_rows(0, 16), carry, final=True)
    with pytest.raises(CarryError, match="finished"):
        stage.step(feature_rows(2, 16), carry)


def test_wrong_input_is_named(stage: MotionDiffusion) -> None:
    with pytest.raises(ShapeError, match="rows"):
        stage.step(FeatureRows(np.zeros((4, 7), np.float32), 50, 0), initial_carry(1, REST))
    with pytest.raises(ShapeError, match="history"):
        initial_carry(1, np.zeros((3, 7), np.float32))
    with pytest.raises(InvalidInputError, match="seed"):
        initial_carry(-1, REST)
    with pytest.raises(InvalidInputError, match="first_frame"):
        initial_carry(1, REST, first_frame=-1)


def test_speech_may_start_in_the_middle_of_a_session(stage: MotionDiffusion) -> None:
    chunk, carry = stage.step(feature_rows(16, 200), initial_carry(1, REST, first_frame=100))
    assert chunk.first_frame == 100 and carry.next_frame == 108


def test_a_hop_of_four_frames_works(stage: MotionDiffusion) -> None:
    short = make_speech_stages(make_engines(random_networks()), hop_frames=4)[1]
    chunk, _ = short.step(feature_rows(8), initial_carry(1, REST))
    assert chunk.motion.shape == (4, 265)
    with pytest.raises(InvalidInputError, match="hop_frames"):
        make_speech_stages(make_engines(random_networks()), hop_frames=32)


def test_a_stream_may_choose_a_shorter_hop_beside_others(stage: MotionDiffusion) -> None:
    short = initial_carry(1, REST, hop_frames=4)
    alone, carry = stage.step(feature_rows(8), short)
    assert alone.motion.shape == (4, 265) and carry.next_frame == 4 and len(carry.history) == 29
    both = stage.steps([MotionItem(feature_rows(16), initial_carry(2, REST)), MotionItem(feature_rows(8), short)])
    chunks = [result[0] for result in both if isinstance(result, tuple)]
    assert [len(chunk.motion) for chunk in chunks] == [8, 4]
    np.testing.assert_array_equal(chunks[1].motion, alone.motion)
    with pytest.raises(CarryError, match="hop_frames"):
        stage.step(feature_rows(8), initial_carry(1, REST, hop_frames=32))
