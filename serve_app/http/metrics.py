"""What the HTTP side counts: plain Prometheus metrics in this process, mirrored to Ray Serve's exporter where Ray runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from deployments.graph.calls import Distribution, StageStats
from deployments.host.jobs import HostStats
from deployments.video_jobs.commands import QueueFacts

LATENCY_BOUNDARIES_MS: Final = (
    5.0,
    10.0,
    25.0,
    50.0,
    100.0,
    250.0,
    500.0,
    1000.0,
    2500.0,
    5000.0,
    10000.0,
    30000.0,
    120000.0,
)


class MetricSpec(NamedTuple):
    """A metric: `kind` is `counter`, `gauge` or `histogram`."""

    kind: str
    name: str
    help: str
    labels: tuple[str, ...]


SPECS: Final = (
    MetricSpec("counter", "liveanchor_http_requests", "Requests answered.", ("method", "route", "status")),
    MetricSpec("histogram", "liveanchor_http_request_ms", "From a request's start to its answer's end.", ("route",)),
    MetricSpec("counter", "liveanchor_http_problems", "Errors answered, by code.", ("code",)),
    MetricSpec("gauge", "liveanchor_http_jobs_active", "Jobs in work in this ingress.", ()),
    MetricSpec("gauge", "liveanchor_http_upload_bytes_held", "Bytes of uploads in memory in this ingress.", ()),
    MetricSpec("counter", "liveanchor_http_upload_bytes", "Bytes of uploads taken in.", ()),
    MetricSpec("counter", "liveanchor_http_cancelled", "Requests whose client went away before the end.", ("route",)),
)


class Mirror(Protocol):
    """Hears every change of a metric."""

    def changed(self, spec: MetricSpec, value: float, labels: Mapping[str, str]) -> None:
        """A counter rose by, a gauge is now, a histogram saw `value`."""
        ...


class HttpMetrics:
    """The counts of one ingress process.

    Args:
        mirror: Another exporter.
    """

    def __init__(self, mirror: Mirror | None = None) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._mirror = mirror
        kinds = {"counter": Counter, "gauge": Gauge}
        self._metrics: dict[str, Counter | Gauge | Histogram] = {}
        for spec in SPECS:
            if spec.kind == "histogram":
                buckets = LATENCY_BOUNDARIES_MS
                metric: Counter | Gauge | Histogram = Histogram(
                    spec.name, spec.help, spec.labels, registry=self.registry, buckets=buckets
                )
            else:
                metric = kinds[spec.kind](spec.name, spec.help, spec.labels, registry=self.registry)
            self._metrics[spec.name] = metric

    def request_done(self, method: str, route: str, status: int, elapsed_ms: float) -> None:
        """A request has been answered."""
        self._changed("liveanchor_http_requests", 1, method=method, route=route, status=str(status))
        self._changed("liveanchor_http_request_ms", elapsed_ms, route=route)

    def problem(self, code: str) -> None:
        """An error has been answered."""
        self._changed("liveanchor_http_problems", 1, code=code)

    def cancelled(self, route: str) -> None:
        """A client went away."""
        self._changed("liveanchor_http_cancelled", 1, route=route)

    def uploaded(self, count: int) -> None:
        """An upload has come in whole."""
        self._changed("liveanchor_http_upload_bytes", count)

    def load(self, jobs: int, held_bytes: int) -> None:
        """What is in work now."""
        self._changed("liveanchor_http_jobs_active", jobs)
        self._changed("liveanchor_http_upload_bytes_held", held_bytes)

    def value(self, name: str, **labels: str) -> float:
        """A sample's value, by its exported name; 0 where it has not been seen yet."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def _changed(self, name: str, value: float, **labels: str) -> None:
        metric = self._metrics[name]
        child = metric.labels(**labels) if labels else metric
        if isinstance(child, Counter):
            child.inc(value)
        elif isinstance(child, Gauge):
            child.set(value)
        else:
            child.observe(value)
        if self._mirror is not None:
            spec = next(spec for spec in SPECS if spec.name == name)
            self._mirror.changed(spec, value, labels)


class _Snapshot(Collector):
    """Counters of the graph as one scrape shows them."""

    def __init__(self, hosts: Iterable[HostStats], stages: Iterable[StageStats], queue: QueueFacts | None) -> None:
        self._hosts = list(hosts)
        self._stages = list(stages)
        self._queue = queue

    def collect(self) -> Iterable[Metric]:
        """Give prometheus_client the metrics as they are now."""
        jobs = CounterMetricFamily("liveanchor_jobs_ended", "Jobs by how they ended.", labels=("replica", "outcome"))
        active = GaugeMetricFamily("liveanchor_jobs_active", "Jobs in work.", labels=("replica",))
        retries = CounterMetricFamily("liveanchor_stage_retries", "Calls made again.", labels=("replica", "stage"))
        for host in self._hosts:
            for outcome in ("finished", "cancelled", "failed"):
                jobs.add_metric((host.replica_id, outcome), getattr(host, outcome))
            active.add_metric((host.replica_id,), len(host.active_jobs))
            for stage, count in host.retries.items():
                retries.add_metric((host.replica_id, stage), count)
        labels = ("stage", "replica")
        calls = CounterMetricFamily("liveanchor_stage_calls", "Calls that arrived.", labels=labels)
        batches = CounterMetricFamily("liveanchor_stage_batches", "Batches that ran.", labels=labels)
        frames = CounterMetricFamily("liveanchor_stage_frames", "Frames made.", labels=labels)
        queue = GaugeMetricFamily("liveanchor_stage_queue_length", "Chunks that wait.", labels=labels)
        dropped = CounterMetricFamily("liveanchor_stage_dropped", "Calls without a result.", labels=(*labels, "reason"))
        sizes = HistogramMetricFamily("liveanchor_stage_batch_size", "Chunks of sessions per batch.", labels=labels)
        waits = HistogramMetricFamily(
            "liveanchor_stage_wait_ms", "From arrival to the start of a batch.", labels=labels
        )
        runs = HistogramMetricFamily("liveanchor_stage_batch_ms", "How long a batch ran.", labels=labels)
        for one in self._stages:
            key = (one.stage, one.replica_id)
            for family, found in ((sizes, one.batch_size), (waits, one.wait_ms), (runs, one.batch_ms)):
                family.add_metric(key, buckets=_buckets(found), sum_value=found.total)
            calls.add_metric(key, one.calls)
            batches.add_metric(key, one.batches)
            frames.add_metric(key, one.frames)
            queue.add_metric(key, one.queued)
            for reason, count in one.dropped.items():
                dropped.add_metric((*key, reason), count)
        return (jobs, active, retries, calls, batches, frames, queue, dropped, sizes, waits, runs, *self._videos())

    def _videos(self) -> Iterable[Metric]:
        if (queue := self._queue) is None:  # the store of videos is away
            return
        yield GaugeMetricFamily("liveanchor_videos_waiting", "Videos that wait to be made.", value=queue.waiting)
        yield GaugeMetricFamily("liveanchor_videos_waiting_s", "Age of the oldest of them.", value=queue.waiting_s)
        yield GaugeMetricFamily("liveanchor_videos_running", "Videos that are being made.", value=queue.running)
        yield GaugeMetricFamily("liveanchor_messages_waiting", "Messages not delivered yet.", value=queue.messages)


def _buckets(found: Distribution) -> list[tuple[str, float]]:
    """As Prometheus counts: every range holds the smaller ones too."""
    ends = [*(f"{end:g}" for end in found.boundaries), "+Inf"]
    return [(end, float(count)) for end, count in zip(ends, accumulate(found.counts), strict=True)]


def exposition(
    metrics: HttpMetrics, hosts: Iterable[HostStats], stages: Iterable[StageStats], queue: QueueFacts | None
) -> bytes:
    """Prometheus text: this process's counts, the graph's, and those of the store of videos, None where it is away."""
    graph = CollectorRegistry()
    graph.register(_Snapshot(hosts, stages, queue))
    return generate_latest(metrics.registry) + generate_latest(graph)
