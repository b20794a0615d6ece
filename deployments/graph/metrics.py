"""Prometheus metrics of a replica, through Ray Serve's own exporter, and the same counts as plain values for tests and stats."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from ray.serve import metrics

from deployments.graph.calls import Distribution

LATENCY_BOUNDARIES_MS = [1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0, 2560.0, 5120.0, 10240.0]
BATCH_BOUNDARIES = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


class Tally:
    """Counts values per range.

    Args:
        boundaries: See `Distribution`.
    """

    def __init__(self, boundaries: Sequence[float]) -> None:
        self._boundaries = tuple(boundaries)
        self._counts = [0] * (len(self._boundaries) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._boundaries, value)] += 1
        self._total += value

    def snapshot(self) -> Distribution:
        """Everything so far."""
        return Distribution(self._boundaries, tuple(self._counts), self._total)


class StageMetrics:
    """A batcher's observer that counts.

    Exported names: `liveanchor_stage_queue_length`, `_batch_size`, `_wait_ms`, `_batch_ms`, `_frames`, `_dropped` (by reason),
    each tagged with the stage and with Ray Serve's application, deployment and replica.

    Args:
        stage: Name of the stage.
    """

    def __init__(self, stage: str) -> None:
        self._queue = metrics.Gauge(
            "liveanchor_stage_queue_length", description="Chunks that wait in this replica.", tag_keys=("stage",)
        )
        self._batch = metrics.Histogram(
            "liveanchor_stage_batch_size",
            description="Chunks of different sessions per batch.",
            boundaries=BATCH_BOUNDARIES,
            tag_keys=("stage",),
        )
        self._wait = metrics.Histogram(
            "liveanchor_stage_wait_ms",
            description="From a chunk's arrival to the start of its batch.",
            boundaries=LATENCY_BOUNDARIES_MS,
            tag_keys=("stage",),
        )
        self._run = metrics.Histogram(
            "liveanchor_stage_batch_ms",
            description="How long a batch ran.",
            boundaries=LATENCY_BOUNDARIES_MS,
            tag_keys=("stage",),
        )
        self._frames = metrics.Counter("liveanchor_stage_frames", description="Frames made.", tag_keys=("stage",))
        self._drops = metrics.Counter(
            "liveanchor_stage_dropped",
            description="Calls without a result.",
            tag_keys=("stage", "reason"),  # type: ignore[arg-type]  # ray's annotation says one key, it takes any number
        )
        for metric in (self._queue, self._batch, self._wait, self._run, self._frames):
            metric.set_default_tags({"stage": stage})  # ray adds its own tags to the very dict
        self._drops.set_default_tags({"stage": stage})
        self.batches = 0
        self.largest_batch = 0
        self.frames = 0
        self.dropped_by_reason: Counter[str] = Counter()
        self.batch_size = Tally(BATCH_BOUNDARIES)
        self.wait_ms = Tally(LATENCY_BOUNDARIES_MS)
        self.batch_ms = Tally(LATENCY_BOUNDARIES_MS)

    def queue_changed(self, queued: int) -> None:
        """Implement `BatchObserver`."""
        self._queue.set(queued)

    def batch_done(self, waits_s: Sequence[float], run_s: float) -> None:
        """Implement `BatchObserver`."""
        self.batches += 1
        self.largest_batch = max(self.largest_batch, len(waits_s))
        _observe(len(waits_s), self._batch, self.batch_size)
        _observe(run_s * 1000, self._run, self.batch_ms)
        for wait in waits_s:
            _observe(max(wait * 1000, 0.0), self._wait, self.wait_ms)

    def dropped(self, reason: str) -> None:
        """Implement `BatchObserver`."""
        self.dropped_by_reason[reason] += 1
        self._drops.inc(tags={"reason": reason})

    def frames_made(self, count: int) -> None:
        """Count finished frames."""
        if count > 0:
            self.frames += count
            self._frames.inc(count)


def _observe(value: float, exported: metrics.Histogram, tally: Tally) -> None:
    exported.observe(value)
    tally.observe(value)
