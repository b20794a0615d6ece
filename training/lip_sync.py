"""Lip-sync measures: pure functions of measured apertures, expected openings and phoneme timings.

All times are seconds since the first audio sample; frame k is shown at k / fps. A *lag* is positive when the mouth is late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from training.runs import runs_of_true

MAX_LAG_FRAMES: Final = 6
CLOSURE_REACH_S: Final = 0.040
"""A closure counts when the mouth is closed at any frame from this long before the phoneme to this long after it."""
RANDOM_WINDOWS_PER_CLOSURE: Final = 20
MAY_CLOSE_REACH_S: Final = 0.080
"""A closed mouth this close to a /m b p/ or to silence is no false closure."""
AFTER_SPEECH_S: Final = 0.200
"""Closing takes time: frames this soon after speech are not judged by `closed_share`."""


@dataclass(frozen=True)
class Span:
    """A stretch of time, seconds, `start_s` < `end_s`."""

    start_s: float
    end_s: float


@dataclass(frozen=True)
class SpokenClip:
    """Holds what the mouth did in one sentence, and what it should have done.

    Attributes:
        name: Name of the sentence in error messages.
        aperture: float32 (n,), measured on decoded frames, NaN where no face was found.
        expected: float32 (n,), 0..1, expected opening at the same frames.
        closures: Timings of every /m/, /b/ and /p/.
        fps: Frames per second.
        silences: Timings of every pause, where they are known.
    """

    name: str
    aperture: F32
    expected: F32
    closures: tuple[Span, ...]
    fps: float
    silences: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        """Refuse curves of different length."""
        if self.aperture.ndim != 1 or self.aperture.shape != self.expected.shape or self.aperture.size == 0:
            raise ShapeError(
                self.name,
                f"aperture {self.aperture.shape}, expected {self.expected.shape}",
                "two equal, non-empty (n,)",
            )


def pearson(a: F32, b: F32) -> float:
    """Pearson correlation of two (n,) curves over the samples where both are finite; 0 where one of them is constant."""
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 2:
        return 0.0
    x = a[both].astype(np.float64) - a[both].mean(dtype=np.float64)
    y = b[both].astype(np.float64) - b[both].mean(dtype=np.float64)
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale > 1e-12 else 0.0


def shifted(aperture: F32, expected: F32, lag: int) -> tuple[F32, F32]:
    """Cut two curves to their overlap when the aperture is `lag` frames late: aperture[k + lag] belongs to expected[k]."""
    length = min(aperture.size, expected.size) - abs(lag)
    if length <= 0:
        return aperture[:0], expected[:0]
    late, early = max(lag, 0), max(-lag, 0)
    return aperture[late : late + length], expected[early : early + length]


def pooled_r(clips: Sequence[SpokenClip], lag: int = 0) -> float:
    """Correlation over the frames of all clips together, every clip shifted by `lag` frames.

    Raises:
        InvalidInputError: No clips.
    """
    _require(clips)
    parts = [shifted(clip.aperture, clip.expected, lag) for clip in clips]
    return pearson(np.concatenate([a for a, _ in parts]), np.concatenate([e for _, e in parts]))


def clip_rs(clips: Sequence[SpokenClip]) -> list[float]:
    """Correlation of every clip on its own, at lag 0."""
    return [pearson(clip.aperture, clip.expected) for clip in clips]


def best_lag(clips: Sequence[SpokenClip], reach: int = MAX_LAG_FRAMES) -> tuple[int, float]:
    """The lag in frames within +-reach with the highest pooled correlation, and that correlation; the smaller |lag| on ties."""
    lags = sorted(range(-reach, reach + 1), key=abs)
    scores = [pooled_r(clips, lag) for lag in lags]
    best = int(np.argmax(scores))
    return lags[best], scores[best]


def wrong_sentence_r(clips: Sequence[SpokenClip]) -> float:
    """Baseline of `pooled_r`: every mouth against every *other* sentence, cut to the shorter; mean over all rotations.

    Raises:
        InvalidInputError: Fewer than two clips.
    """
    if len(clips) < 2:
        raise InvalidInputError("clips", str(len(clips)), "at least two, to have a wrong sentence")
    scores = []
    for step in range(1, len(clips)):
        parts = [shifted(clip.aperture, clips[(i + step) % len(clips)].expected, 0) for i, clip in enumerate(clips)]
        scores.append(pearson(np.concatenate([a for a, _ in parts]), np.concatenate([e for _, e in parts])))
    return float(np.mean(scores))


def is_closed_within(aperture: F32, span: Span, limit: float, fps: float) -> bool:
    """True when any frame shown within `span` widened by 40 ms on both sides has an aperture below `limit`."""
    first = int(np.ceil((span.start_s - CLOSURE_REACH_S) * fps - 1e-6))
    last = int(np.floor((span.end_s + CLOSURE_REACH_S) * fps + 1e-6))
    window = aperture[max(first, 0) : last + 1]
    return bool((window < limit).any())  # NaN, a frame without a face, is never below


def closures(clips: Sequence[SpokenClip], limit: float) -> list[bool]:
    """For every /m b p/ of all clips: did the mouth close?

    Args:
        clips: The sentences.
        limit: Closed is below this aperture: rest value plus `CLOSED_MARGIN`.

    Raises:
        InvalidInputError: No clips, or no closure in any of them.
    """
    _require(clips)
    shut = [is_closed_within(c.aperture, span, limit, c.fps) for c in clips for span in c.closures]
    if not shut:
        raise InvalidInputError("clips", "no /m b p/ in any sentence", "sentences with closures")
    return shut


def random_closures_share(clips: Sequence[SpokenClip], limit: float, seed: int = 0) -> float:
    """Baseline of `closures`: windows of the same lengths at random places of the same clips."""
    rng = np.random.default_rng(seed)
    shut = []
    for clip in clips:
        duration = clip.aperture.size / clip.fps
        for span in clip.closures:
            length = span.end_s - span.start_s
            for start in rng.uniform(0.0, max(duration - length, 0.0), RANDOM_WINDOWS_PER_CLOSURE):
                shut.append(is_closed_within(clip.aperture, Span(start, start + length), limit, clip.fps))
    return float(np.mean(shut)) if shut else 0.0


def false_closures(clip: SpokenClip, limit: float) -> tuple[int, float]:
    """How often the mouth closes where nothing asks for it: the price of closures that are bought by closing more.

    Args:
        clip: A sentence with its silences.
        limit: Closed is below this aperture.

    Returns:
        Episodes of closed frames of which none lies within 80 ms of a /m b p/, of silence, or of the end of the clip; and the
        seconds in which one could have been.
    """
    times = np.arange(clip.aperture.size) / clip.fps
    may = times >= times[-1] - MAY_CLOSE_REACH_S
    for span in (*clip.closures, *clip.silences):
        may |= (times >= span.start_s - MAY_CLOSE_REACH_S) & (times <= span.end_s + MAY_CLOSE_REACH_S)
    episodes = sum(not may[a:b].any() for a, b in runs_of_true(clip.aperture < limit))
    return int(episodes), float((~may).sum() / clip.fps)


def false_closures_per_s(clips: Sequence[SpokenClip], limit: float) -> float:
    """False closures of all clips together, per second in which there could be one; 0 where there is no such second."""
    _require(clips)
    found = [false_closures(clip, limit) for clip in clips]
    seconds = sum(duration for _, duration in found)
    return sum(count for count, _ in found) / seconds if seconds else 0.0


def closed_share(
    aperture: F32, limit: float, fps: float, silent_from_s: float = 0.0, after_speech: bool = True
) -> float:
    """Share of silent frames whose mouth is closed; a frame without a face is not.

    Args:
        aperture: float32 (n,).
        limit: Closed is below this.
        fps: Frames per second.
        silent_from_s: Second at which silence begins.
        after_speech: Whether speech went before: the first 200 ms of silence are then left out.

    Raises:
        InvalidInputError: No silent frame.
    """
    start = silent_from_s + (AFTER_SPEECH_S if after_speech else 0.0)
    part = aperture[int(np.ceil(start * fps - 1e-6)) :]
    if part.size == 0:
        raise InvalidInputError(
            "silent_from_s", f"{silent_from_s} of {aperture.size / fps} s", "silence inside the clip"
        )
    return float((part < limit).mean())


def _require(clips: Sequence[SpokenClip]) -> None:
    if not clips:
        raise InvalidInputError("clips", "none", "at least one sentence")
