"""Live motion of Ditto: nothing held back, exact lengths, no state between sessions, joins without a jump."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.ditto.formula import FILL, SALT
from engines.ditto.motion_sampler import session_noise
from engines.motion_layout import EXP, MOTION_DIM
from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline.ditto.motion_diffusion import (
    DittoMotionCarry,
    DittoMotionDiffusion,
    LiveSettings,
    start_carry,
)
from pipeline.ditto.speaker import EYE_DIMS, STILL_DIMS, Speaker
from pipeline.stages import CarryError, MotionItem
from pipeline.types import FeatureRows
from tests.support.ditto_motion import FormulaModel, settings, silence, speaker, stage

NO_ROWS = FeatureRows(np.zeros((0, 0), np.float32), 50, 0)
STILL = np.zeros((1, MOTION_DIM), np.float32)


def rows(first_frame: int, frames: int, name: str = "a") -> FeatureRows:
    all_rows = FILL.normal(f"live/{name}", (400, 1024), SALT, 0.5)
    return FeatureRows(all_rows[2 * first_frame : 2 * (first_frame + frames)], 50, 2 * first_frame)


def talk(
    made_by: DittoMotionDiffusion,
    frames: int,
    name: str = "a",
    seed: int = 7,
    who: Speaker | None = None,
    shown: F32 = STILL,
) -> F32:
    carry = start_carry(seed, shown, who or speaker())
    out = []
    for first in range(0, frames, 5):
        chunk, carry = made_by.step(rows(first, min(5, frames - first), name), carry, final=first + 5 >= frames)
        assert chunk.first_frame == first
        out.append(chunk.motion)
    return np.concatenate(out)


def test_every_hop_of_rows_gives_its_hop_of_motion_at_once() -> None:
    made_by, carry = stage(), start_carry(7, STILL, speaker())
    for first in range(0, 40, 5):
        chunk, carry = made_by.step(rows(first, 5), carry)
        assert (chunk.first_frame, chunk.motion.shape) == (first, (5, MOTION_DIM))
        assert chunk.motion.dtype == np.float32 and np.isfinite(chunk.motion).all()


@pytest.mark.parametrize("frames", [1, 4, 5, 6, 23])
def test_output_is_as_long_as_the_audio(frames: int) -> None:
    assert len(talk(stage(), frames)) == frames


@pytest.mark.parametrize("hop", [5, 10, 70])
def test_windows_are_cut_by_the_hop_alone(hop: int) -> None:
    model = FormulaModel()
    made_by = stage(model, hop_frames=hop)
    carry = start_carry(7, STILL, speaker())
    whole, _ = made_by.step(rows(0, 140), carry)
    carry = start_carry(7, STILL, speaker())
    pieces = []
    for first in range(0, 140, 5):
        chunk, carry = made_by.step(rows(first, 5), carry)
        pieces.append(chunk.motion)
    np.testing.assert_array_equal(np.concatenate(pieces), whole.motion)
    assert len(model.batches) == 2 * (1 + 140 // hop)


def test_a_session_may_ask_for_longer_hops_and_its_windows_are_those_of_a_stage_with_such_hops() -> None:
    def spoken(made_by: DittoMotionDiffusion, hop: int) -> F32:
        _, prepared = made_by.step(NO_ROWS, start_carry(7, STILL, speaker()))
        carry, out = start_carry(7, STILL, speaker(), prepared=prepared, hop_frames=hop), []
        for first in range(0, 60, 10):
            chunk, carry = made_by.step(rows(first, 10), carry)
            out.append(chunk.motion)
        return np.concatenate(out)

    model, longer = FormulaModel(), FormulaModel()
    asked = spoken(stage(model), 10)
    np.testing.assert_array_equal(asked, spoken(stage(longer, hop_frames=10), 0))
    assert len(model.batches) == len(longer.batches) == 1 + 60 // 10
    assert not np.array_equal(asked, spoken(stage(), 0))


@pytest.mark.parametrize("hop", [4, 12, 80, -5])
def test_a_hop_that_a_stage_cannot_make_is_refused(hop: int) -> None:
    with pytest.raises(CarryError, match=r"carry\.hop_frames"):
        stage().step(rows(0, 5), start_carry(7, STILL, speaker(), hop_frames=hop))


def test_set_up_before_the_first_sample_changes_nothing_but_the_wait() -> None:
    model = FormulaModel()
    made_by = stage(model)
    empty, prepared = made_by.step(NO_ROWS, start_carry(7, STILL, speaker()))
    assert len(empty.motion) == 0 and len(model.batches) == 1
    ready = start_carry(7, STILL, speaker(), prepared=prepared)
    first, _ = made_by.step(rows(0, 5), ready)
    assert len(model.batches) == 2
    np.testing.assert_array_equal(first.motion, talk(stage(), 5))


def test_an_interruption_begins_anew_from_the_shown_pose() -> None:
    made_by = stage()
    _, prepared = made_by.step(NO_ROWS, start_carry(7, STILL, speaker()))
    carry = start_carry(7, STILL, speaker(), prepared=prepared)
    for first in range(0, 15, 5):
        chunk, carry = made_by.step(rows(first, 5), carry)
    shown = chunk.motion[-1:]
    after = start_carry(7, shown, speaker(), first_frame=15, epoch=1, prepared=prepared)
    fresh = start_carry(7, shown, speaker(), first_frame=15, epoch=1)
    again = [made_by.step(rows(15, 5, "b"), begin)[0].motion for begin in (after, fresh)]
    np.testing.assert_array_equal(again[0], again[1])
    assert np.abs(again[0] - made_by.step(rows(15, 5, "b"), carry)[0].motion).max() > 1e-3


def test_two_sessions_interleaved_equal_two_alone_bit_for_bit() -> None:
    made_by = stage()
    alone = [talk(stage(), 20, "a", 7, speaker("a")), talk(stage(), 20, "b", 8, speaker("b", blink=True))]
    carries = [start_carry(7, STILL, speaker("a")), start_carry(8, STILL, speaker("b", blink=True))]
    out: list[list[F32]] = [[], []]
    for first in range(0, 20, 5):
        for i, name in enumerate("ab"):
            chunk, carries[i] = made_by.step(rows(first, 5, name), carries[i])
            out[i].append(chunk.motion)
    for made, single in zip(out, alone, strict=True):
        np.testing.assert_array_equal(np.concatenate(made), single)


def test_batched_sessions_share_calls_and_equal_single_ones() -> None:
    model = FormulaModel()
    made_by = stage(model)
    items = [MotionItem(rows(0, 5, n), start_carry(s, STILL, speaker(n))) for n, s in (("a", 7), ("b", 8))]
    results = made_by.steps(items)
    assert model.batches == [2, 2]
    for item, result, name in zip(items, results, "ab", strict=True):
        assert isinstance(result, tuple)
        alone, _ = stage().step(item.rows, item.carry)
        np.testing.assert_allclose(result[0].motion, alone.motion, rtol=1e-5, atol=1e-6)
        assert isinstance(result[1], DittoMotionCarry) and name


def test_a_bad_item_fails_alone() -> None:
    made_by = stage()
    _, carry = made_by.step(rows(0, 5), start_carry(7, STILL, speaker()))
    fresh = start_carry(7, STILL, speaker())
    wide = FeatureRows(np.zeros((10, 512), np.float32), 50, 0)
    items = [
        MotionItem(rows(5, 5), carry),
        MotionItem(rows(10, 5), carry),
        MotionItem(rows(5, 5), replace(carry, version="v0")),
        MotionItem(rows(5, 5), replace(carry, finished=True)),
        MotionItem(wide, fresh),
        MotionItem(rows(5, 5), replace(carry, history=carry.history[:-1])),
    ]
    good, *bad = made_by.steps(items)
    assert isinstance(good, tuple) and len(good[0].motion) == 5
    assert [type(result) for result in bad] == [CarryError, CarryError, CarryError, ShapeError, CarryError]


def test_noise_is_the_seed_s_own() -> None:
    assert np.array_equal(talk(stage(), 10), talk(stage(), 10))
    assert np.abs(talk(stage(), 10) - talk(stage(), 10, seed=8)).max() > 0.1
    first, second = session_noise(7, 1, 4), session_noise(7, 2, 4)
    assert first.shape == (4, 80, 265)
    assert torch.equal(first[:3], second[:3]) and not torch.equal(first[3], second[3])
    assert not torch.equal(session_noise(8, 1, 4)[:3], first[:3])


def jumps(motion: F32) -> np.ndarray:
    return np.linalg.norm(np.diff(motion, axis=0), axis=1)


class DriftingModel(FormulaModel):
    """Smooth inside a window, and every window off by its own constant: joins show whatever is not fused."""

    def run(self, *inputs: torch.Tensor) -> torch.Tensor:
        _, _, noise = inputs
        line = torch.linspace(0, 0.1, 80)[None, :, None]
        return line + noise[:, -1, :1, :].expand(-1, 80, -1)


def test_a_join_is_fused_from_one_side() -> None:
    motion = talk(stage(DriftingModel()), 40)
    step = jumps(motion)[10:]
    unfused = np.linalg.norm(session_noise(7, 6, 3)[-1, 0] - session_noise(7, 11, 3)[-1, 0])
    assert step.max() < 0.45 * unfused, (step.max(), unfused)
    at_joins, elsewhere = step[4::5], np.delete(step, np.s_[4::5])
    assert np.median(at_joins) < 1.25 * np.median(elsewhere)


def test_speech_starts_from_what_the_viewer_sees() -> None:
    shown = FILL.normal("shown", (2, MOTION_DIM), SALT, 2.0)
    shown[:, STILL_DIMS] = 0.0  # nothing that is shown moves them but what is expressed
    made = talk(stage(), 10, shown=shown)
    still = talk(stage(), 10)
    driven = speaker().drive > 0
    from_shown = np.linalg.norm((made[0] - shown[-1])[driven]), np.linalg.norm((still[0] - shown[-1])[driven])
    assert from_shown[0] < 0.5 * from_shown[1]


def test_the_canned_blink_moves_only_the_eyes_and_takes_their_place() -> None:
    who = speaker("a", blink=True)
    frames = 80
    with_blink, without = talk(stage(), frames, who=who), talk(stage(), frames, who=replace(who, blink=who.blink[:0]))
    others = np.setdiff1d(np.arange(MOTION_DIM), EYE_DIMS)
    np.testing.assert_array_equal(with_blink[:, others], without[:, others])
    eyes = with_blink[:, EYE_DIMS]
    blinking = np.abs(eyes - who.blink[0][EYE_DIMS - EXP.start]).max(axis=1) > 1e-6
    assert 14 <= blinking.sum() <= 15 and 35 <= int(np.argmax(blinking)) <= 56


def test_motion_stays_inside_its_limits() -> None:
    bounds = np.stack([np.full(265, -0.05, np.float32), np.full(265, 0.05, np.float32)])
    made = talk(stage(limits=bounds), 20)
    assert np.abs(made).max() <= 0.1 + 1e-6
    assert np.abs(talk(stage(), 20)).max() > 0.2


def test_resets_start_from_the_source_but_keep_what_they_must() -> None:
    class Recorder(FormulaModel):
        frames: list[F32] = []

        def run(self, *inputs: torch.Tensor) -> torch.Tensor:
            self.frames = [*self.frames, inputs[0][0].numpy()]
            return super().run(*inputs)

    model = Recorder()
    talk(stage(model, reset_every=1, reset_keeps=(0, 202)), 15)
    source = speaker().source
    np.testing.assert_array_equal(model.frames[0], source)
    for frame in model.frames[1:]:
        np.testing.assert_array_equal(frame[202:], source[202:])
        assert np.abs(frame[:202] - source[:202]).max() > 1e-3


@pytest.mark.parametrize("hop", [0, 4, 80, 12])
def test_a_hop_that_does_not_fit_the_encoder_is_refused(hop: int) -> None:
    with pytest.raises(InvalidInputError, match="hop_frames"):
        settings(hop_frames=hop)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match="silence"):
        DittoMotionDiffusion(FormulaModel(), LiveSettings(emotion=np.ones((1, 8), np.float32)), silence()[:4])
    with pytest.raises(ShapeError, match="shown"):
        start_carry(0, np.zeros((1, 3), np.float32), speaker())
    with pytest.raises(InvalidInputError, match="seed"):
        start_carry(-1, STILL, speaker())
    stage().probe()
