from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.mini.load import make_engines, random_networks
from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline.mini.audio_features import AudioFeatures, AudioFeaturesItem
from pipeline.mini.load import make_speech_stages
from pipeline.stages import CarryError


@pytest.fixture(scope="module")
def stage() -> AudioFeatures:
    return make_speech_stages(make_engines(random_networks()))[0]


def speech(samples: int, seed: int = 0) -> F32:
    return (np.random.default_rng(seed).standard_normal(samples) * 0.1).astype(np.float32)


def whole(stage: AudioFeatures, pcm: F32) -> F32:
    return stage.step(pcm, stage.initial_carry(), final=True)[0].rows


@pytest.mark.parametrize("samples", [1, 639, 640, 641, 5120, 20_001])
def test_two_rows_per_frame_of_audio(stage: AudioFeatures, samples: int) -> None:
    assert whole(stage, speech(samples)).shape == (2 * -(-samples // 640), 128)


def test_no_samples_give_no_rows(stage: AudioFeatures) -> None:
    rows, carry = stage.step(np.zeros(0, np.float32), stage.initial_carry(), final=True)
    assert rows.rows.shape == (0, 128) and carry.finished


@pytest.mark.parametrize("piece", [1, 160, 640, 4099, 100_000])
def test_pieces_and_whole_give_the_same_bits(stage: AudioFeatures, piece: int) -> None:
    pcm = speech(9000 if piece == 1 else 30_000)
    if piece == 1:
        pieces = [pcm[:8990], *(pcm[i : i + 1] for i in range(8990, 9000))]
    else:
        pieces = [pcm[i : i + piece] for i in range(0, len(pcm), piece)]
    carry, made, first = stage.initial_carry(), [], 0
    for part in pieces:
        rows, carry = stage.step(part, carry)
        assert rows.first_row == first
        first += len(rows.rows)
        made.append(rows.rows)
    made.append(stage.step(np.zeros(0, np.float32), carry, final=True)[0].rows)
    np.testing.assert_array_equal(np.concatenate(made), whole(stage, pcm))


def test_a_row_waits_for_no_more_than_120_ms(stage: AudioFeatures) -> None:
    assert stage.shape.lookahead_samples <= 0.120 * 16_000
    pcm = speech(5120 + stage.shape.lookahead_samples)
    assert len(stage.step(pcm, stage.initial_carry())[0].rows) == 16
    assert len(stage.step(pcm[:-1], stage.initial_carry())[0].rows) == 0


def test_the_future_beyond_the_look_ahead_changes_nothing(stage: AudioFeatures) -> None:
    pcm = speech(16_000)
    other = pcm.copy()
    edge = 5120 + stage.shape.lookahead_samples
    other[edge:] = 0.0
    np.testing.assert_array_equal(whole(stage, pcm)[:16], whole(stage, other)[:16])
    other[edge - 400 :] = 0.0
    assert not np.array_equal(whole(stage, pcm)[15], whole(stage, other)[15])


@pytest.mark.parametrize("value", [0.0, 0.5, -1.0, np.nan, np.inf, 1e30])
def test_constant_and_broken_samples_give_finite_rows(stage: AudioFeatures, value: float) -> None:
    rows = whole(stage, np.full(6400, value, np.float32))
    assert np.isfinite(rows).all()


def test_constant_input_is_as_good_as_silence(stage: AudioFeatures) -> None:
    silence = stage.window(np.zeros(stage.window_samples, np.float32), 0).rows
    constant = stage.window(np.full(stage.window_samples, 0.25, np.float32), 0).rows
    np.testing.assert_allclose(constant, silence, atol=1e-4)


def test_batched_sessions_do_not_touch_each_other(stage: AudioFeatures) -> None:
    items = [AudioFeaturesItem(speech(n, n), stage.initial_carry(), True) for n in (640, 9000, 20_000)]
    results = stage.steps(items)
    for item, result in zip(items, results, strict=True):
        assert not isinstance(result, Exception)
        np.testing.assert_allclose(result[0].rows, whole(stage, item.pcm), atol=1e-4)


def test_a_bad_item_fails_alone(stage: AudioFeatures) -> None:
    good = AudioFeaturesItem(speech(6400), stage.initial_carry(), True)
    stale = AudioFeaturesItem(speech(6400), replace(stage.initial_carry(), version="other"), True)
    results = stage.steps([stale, good])
    assert isinstance(results[0], CarryError) and not isinstance(results[1], Exception)


def test_a_finished_stream_takes_no_more(stage: AudioFeatures) -> None:
    _, carry = stage.step(speech(640), stage.initial_carry(), final=True)
    with pytest.raises(CarryError):
        stage.step(speech(640), carry)


def test_wrong_shapes_are_named(stage: AudioFeatures) -> None:
    with pytest.raises(ShapeError, match="pcm"):
        stage.step(np.zeros((2, 640), np.float32), stage.initial_carry())
    with pytest.raises(InvalidInputError, match="window"):
        stage.window(np.zeros(5, np.float32), 0)


def test_a_window_equals_the_step_that_makes_it(stage: AudioFeatures) -> None:
    pcm = speech(20_000)
    padded = np.concatenate([np.zeros(stage.shape.left_samples, np.float32), pcm])
    window = padded[5120 : 5120 + stage.window_samples]
    np.testing.assert_array_equal(stage.window(window, 16).rows, whole(stage, pcm)[16:32])


def test_inputs_are_not_written_to(stage: AudioFeatures) -> None:
    pcm = speech(6400)
    pcm.setflags(write=False)
    carry = stage.initial_carry()
    carry.pcm.setflags(write=False)
    stage.step(pcm, carry)


def test_windows_of_a_shorter_hop_give_the_same_rows(stage: AudioFeatures) -> None:
    whole = stage.window_samples
    pcm = np.random.default_rng(5).standard_normal(whole).astype(np.float32) * 0.1
    short = pcm[: whole - 4 * 640]
    rows = stage.windows([(pcm, 0), (short, 0)])
    assert [len(one.rows) for one in rows] == [16, 8]
    np.testing.assert_allclose(rows[1].rows, rows[0].rows[:8], atol=1e-5)
    for wrong in (pcm[1:], pcm[: whole - 8 * 640], np.zeros(whole + 640, np.float32)):
        with pytest.raises(ShapeError):
            stage.window(wrong, 0)
