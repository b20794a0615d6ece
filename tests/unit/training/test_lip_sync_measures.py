"""Lip-sync measures on curves whose answers are known."""

import numpy as np
import pytest

from kernels.errors import InvalidInputError, ShapeError
from training.lip_sync import (
    Span,
    SpokenClip,
    best_lag,
    clip_rs,
    closed_share,
    closures,
    false_closures,
    false_closures_per_s,
    is_closed_within,
    pearson,
    pooled_r,
    random_closures_share,
    shifted,
    wrong_sentence_r,
)

FPS = 25.0


def speech_like(seed: int, frames: int = 80) -> np.ndarray:
    noise = np.random.default_rng(seed).random(frames + 4)
    return np.convolve(noise, np.ones(5) / 5, mode="valid").astype(np.float32)


def clip(expected: np.ndarray, aperture: np.ndarray, spans: tuple[Span, ...] = ()) -> SpokenClip:
    return SpokenClip("clip", aperture.astype(np.float32), expected.astype(np.float32), spans, FPS)


def test_pearson_matches_numpy_and_survives_gaps_and_constants() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=50).astype(np.float32)
    b = (0.6 * a + 0.8 * rng.normal(size=50)).astype(np.float32)
    assert pearson(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-6)
    holes = a.copy()
    holes[3] = np.nan
    keep = np.arange(50) != 3
    assert pearson(holes, b) == pytest.approx(np.corrcoef(a[keep], b[keep])[0, 1], abs=1e-6)
    assert pearson(a, np.full(50, 0.3, dtype=np.float32)) == 0.0
    assert pearson(a[:1], b[:1]) == 0.0


def test_a_mouth_that_follows_its_sentence_beats_the_wrong_sentences() -> None:
    clips = [clip(speech_like(seed), 0.03 + 0.3 * speech_like(seed)) for seed in range(8)]
    assert pooled_r(clips) == pytest.approx(1.0, abs=1e-5)
    assert clip_rs(clips) == pytest.approx([1.0] * 8, abs=1e-5)
    assert abs(wrong_sentence_r(clips)) < 0.15


def test_pooling_sees_a_mouth_that_is_open_in_the_wrong_sentence() -> None:
    """Perfect within each clip, but loud sentences barely open: the pooled value must drop below the clips' own."""
    base = speech_like(1)
    clips = [clip(base, 0.3 * base), clip(base + 1.0, 0.3 * base)]
    assert clip_rs(clips) == pytest.approx([1.0, 1.0], abs=1e-5)
    assert pooled_r(clips) < 0.5


@pytest.mark.parametrize("late", [-5, -1, 0, 2, 6])
def test_best_lag_is_positive_when_the_mouth_is_late(late: int) -> None:
    clips = []
    for seed in range(4):
        long = speech_like(seed, 120)
        clips.append(clip(long[20:100], long[20 - late : 100 - late]))
    lag, r = best_lag(clips)
    assert lag == late and r == pytest.approx(1.0, abs=1e-5)


def test_best_lag_prefers_zero_when_nothing_tells() -> None:
    still = np.full(40, 0.1, dtype=np.float32)
    assert best_lag([clip(speech_like(0, 40), still)]) == (0, 0.0)


def test_shifted_overlaps() -> None:
    aperture, expected = np.arange(5, dtype=np.float32), np.arange(10, 14, dtype=np.float32)
    a, e = shifted(aperture, expected, 1)
    assert a.tolist() == [1, 2, 3] and e.tolist() == [10, 11, 12]
    a, e = shifted(aperture, expected, -1)
    assert a.tolist() == [0, 1, 2] and e.tolist() == [11, 12, 13]
    a, e = shifted(aperture, expected, 9)
    assert a.size == e.size == 0


def test_closure_window_reaches_40_ms_and_no_further() -> None:
    open_mouth = np.full(50, 0.2, dtype=np.float32)
    shut = open_mouth.copy()
    shut[20] = 0.03  # shown at 0.80 s
    assert is_closed_within(shut, Span(0.80, 0.86), 0.05, FPS)
    assert is_closed_within(shut, Span(0.84, 0.90), 0.05, FPS)  # widened to 0.80 .. 0.94
    assert not is_closed_within(shut, Span(0.85, 0.90), 0.05, FPS)
    assert is_closed_within(shut, Span(0.70, 0.76), 0.05, FPS)
    assert not is_closed_within(shut, Span(0.69, 0.755), 0.05, FPS)
    assert not is_closed_within(open_mouth, Span(0.8, 0.86), 0.05, FPS)


def test_a_frame_without_a_face_is_never_closed() -> None:
    gone = np.full(50, np.nan, dtype=np.float32)
    assert not is_closed_within(gone, Span(0.8, 0.9), 0.05, FPS)
    assert closed_share(gone, 0.05, FPS, after_speech=False) == 0.0


def test_spans_at_the_ends_of_the_clip_count() -> None:
    aperture = np.full(10, 0.2, dtype=np.float32)
    aperture[0] = aperture[9] = 0.0
    assert is_closed_within(aperture, Span(0.0, 0.02), 0.05, FPS)
    assert is_closed_within(aperture, Span(0.37, 0.50), 0.05, FPS)
    assert not is_closed_within(aperture, Span(0.60, 0.70), 0.05, FPS)


def test_closures_against_random_windows() -> None:
    aperture = np.full(250, 0.2, dtype=np.float32)
    spans = []
    for k in range(20, 240, 20):
        aperture[k] = 0.02
        spans.append(Span(k / FPS - 0.03, k / FPS + 0.03))
    spans.append(Span(0.3, 0.36))  # one that stays open
    clips = [clip(speech_like(0, 250), aperture, tuple(spans))]
    shut = closures(clips, 0.05)
    assert (sum(shut), len(shut)) == (11, 12)
    # 140 ms windows over one closed frame in 20 (800 ms): about 0.18 of them catch it
    assert 0.1 < random_closures_share(clips, 0.05) < 0.27
    assert random_closures_share(clips, 0.05, seed=3) == random_closures_share(clips, 0.05, seed=3)


def test_closed_share_leaves_out_200_ms_after_speech() -> None:
    aperture = np.full(100, 0.02, dtype=np.float32)
    aperture[:55] = 0.2  # speech until 2.0 s = frame 50, then 5 frames of closing
    assert closed_share(aperture, 0.05, FPS, silent_from_s=2.0) == 1.0
    aperture[60] = 0.2
    assert closed_share(aperture, 0.05, FPS, silent_from_s=2.0) == pytest.approx(44 / 45)
    assert closed_share(aperture, 0.05, FPS, silent_from_s=2.0, after_speech=False) == pytest.approx(44 / 50)


def test_unusable_input_is_refused() -> None:
    one = clip(speech_like(0), speech_like(0))
    with pytest.raises(InvalidInputError):
        pooled_r([])
    with pytest.raises(InvalidInputError):
        wrong_sentence_r([one])
    with pytest.raises(InvalidInputError):
        closures([one], 0.05)
    with pytest.raises(InvalidInputError):
        closed_share(one.aperture, 0.05, FPS, silent_from_s=99.0)
    with pytest.raises(ShapeError):
        clip(speech_like(0), speech_like(0)[:-1])


def test_false_closures_are_episodes_away_from_closures_and_silence() -> None:
    aperture = np.full(50, 0.2, np.float32)
    aperture[[10, 11, 20, 30, 31, 40, 49]] = 0.0
    sentence = SpokenClip("c", aperture, aperture, (Span(0.44, 0.52),), FPS, (Span(1.60, 1.70),))
    # 10 touches the closure's reach, 40 and 49 lie by the silence and at the end; 20 and 30 do not
    assert false_closures(sentence, 0.05) == (2, pytest.approx((50 - 7 - 7 - 3) / FPS))
    quiet = SpokenClip("c", aperture, aperture, (), FPS, (Span(0.0, 2.0),))
    assert false_closures_per_s([quiet], 0.05) == 0.0
    assert false_closures_per_s([sentence, quiet], 0.05) == pytest.approx(2 / (33 / FPS))
    with pytest.raises(InvalidInputError):
        false_closures_per_s([], 0.05)
