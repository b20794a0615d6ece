"""Rows of the lip measures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from training.lip_sync import (
    SpokenClip,
    best_lag,
    clip_rs,
    closures,
    pooled_r,
    random_closures_share,
    wrong_sentence_r,
)

WRONG_SENTENCES = "same mouths, wrong sentences"
RANDOM_WINDOWS = "random windows of the same lengths"
ALWAYS_AT_REST = "share of closed frames in the speech of the same clips"


def correlation_record(
    run: RunInfo, suite: str, case: str, clips: Sequence[SpokenClip], ceiling: float | None
) -> BenchmarkRecord:
    """Pooled correlation at lag 0; p5 and p95 over sentences; n = sentences."""
    return make_record(
        run,
        suite=suite,
        case=case,
        unit="1",
        samples=clip_rs(clips),
        value=pooled_r(clips),
        higher_is_better=True,
        baseline=WRONG_SENTENCES,
        baseline_value=wrong_sentence_r(clips),
        floor_value=ceiling,
    )


def lag_record(
    run: RunInfo, suite: str, case: str, clips: Sequence[SpokenClip], ceiling: float | None
) -> BenchmarkRecord:
    """Absolute value of the best pooled lag in frames; p5 and p95 over the sentences' own."""
    return make_record(
        run,
        suite=suite,
        case=case,
        unit="frames",
        samples=[abs(best_lag([clip])[0]) for clip in clips],
        value=abs(best_lag(clips)[0]),
        higher_is_better=False,
        floor_value=ceiling,
    )


def closures_record(
    run: RunInfo, suite: str, case: str, clips: Sequence[SpokenClip], limit: float, ceiling: float | None
) -> BenchmarkRecord:
    """Share of /m b p/ that close; n = phonemes."""
    shut = closures(clips, limit)
    return make_record(
        run,
        suite=suite,
        case=case,
        unit="1",
        samples=[float(np.mean(shut))],
        n=len(shut),
        higher_is_better=True,
        baseline=RANDOM_WINDOWS,
        baseline_value=random_closures_share(clips, limit),
        floor_value=ceiling,
    )


def silence_record(
    run: RunInfo,
    suite: str,
    case: str,
    shares: dict[str, list[float]],
    clips: Sequence[SpokenClip],
    limit: float,
    frames: int,
) -> BenchmarkRecord:
    """The lowest share over all silences; baseline: how often the same mouth happens to be closed in speech.

    Args:
        run: The machine.
        suite: File name.
        case: Case name.
        shares: What `speaking.silence_shares` returned.
        clips: Speech of the same face.
        limit: Closed is below this aperture.
        frames: Silent frames behind all shares.
    """
    speech = np.concatenate([clip.aperture for clip in clips])
    every = [share for kind in shares.values() for share in kind]
    return make_record(
        run,
        suite=suite,
        case=case,
        unit="1",
        samples=every,
        value=min(every),
        n=frames,
        higher_is_better=True,
        baseline=ALWAYS_AT_REST,
        baseline_value=float((speech < limit).mean()),
    )
