import numpy as np
import pytest

from pipeline.session.blink_cue import blink_cue, hashed_uniform


def onsets(seed: int, seconds: int = 120) -> np.ndarray:
    cue = blink_cue(seed, 0, seconds * 25)
    return (np.flatnonzero((cue[1:] > 0) & (cue[:-1] == 0)) + 1) / 25


def test_first_blink_comes_within_three_seconds_and_not_at_once() -> None:
    firsts = [onsets(seed)[0] for seed in range(200)]
    assert min(firsts) >= 1.2
    assert max(firsts) <= 2.65
    assert max(firsts) - min(firsts) > 1.0


def test_intervals_are_those_of_people() -> None:
    gaps = np.concatenate([np.diff(onsets(seed)) for seed in range(60)])
    double = gaps < 1.0
    assert 0.04 < double.mean() < 0.2
    assert gaps[double].min() > 0.3
    single = gaps[~double]
    assert single.min() > 1.4  # after a double blink
    assert single.max() <= 5.54
    assert 3.0 < np.median(single) < 4.5


def test_every_blink_shuts_the_eye_and_opens_slower_than_it_closes() -> None:
    for seed in range(30):
        cue = blink_cue(seed, 0, 2500)
        starts = np.flatnonzero((cue[1:] > 0) & (cue[:-1] == 0)) + 1
        for start in starts[:-1]:
            blink = cue[start : start + 9]
            assert blink.max() == 1.0
            peak = int(blink.argmax())
            assert peak <= 3
            assert 4 <= np.count_nonzero(blink[peak + 1 :]) <= 6


@pytest.mark.parametrize("first", [-100, 0, 37, 5_000_000])
def test_any_stretch_equals_the_same_stretch_of_a_longer_one(first: int) -> None:
    whole = blink_cue(5, first, 400)
    parts = np.concatenate([blink_cue(5, first + i, 7) for i in range(0, 399, 7)])
    np.testing.assert_array_equal(whole[: len(parts)], parts[:400])


def test_seeds_differ_and_repeat() -> None:
    assert np.array_equal(blink_cue(1, 0, 500), blink_cue(1, 0, 500))
    assert not np.array_equal(blink_cue(1, 0, 500), blink_cue(2, 0, 500))
    assert blink_cue(-3, 0, 10).dtype == np.float32
    assert blink_cue(2**70, 0, 0).shape == (0,)


def test_hashed_uniform_is_uniform_and_independent_of_neighbours() -> None:
    draws = hashed_uniform(9, 4, np.arange(-5000, 5000))
    assert 0.0 <= draws.min() < 0.01 < 0.99 < draws.max() < 1.0
    assert abs(draws.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.04
    assert abs(np.corrcoef(draws, hashed_uniform(9, 5, np.arange(-5000, 5000)))[0, 1]) < 0.04
