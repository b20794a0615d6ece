"""The HTTP side's metrics through Ray Serve's exporter, tagged there with application, deployment and replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.serve import metrics

from serve_app.http.metrics import LATENCY_BOUNDARIES_MS, SPECS, MetricSpec


class RayMirror:
    """Implements `serve_app.http.metrics.Mirror`."""

    def __init__(self) -> None:
        self._metrics: dict[str, Any] = {}
        for spec in SPECS:
            options: dict[str, Any] = {"description": spec.help, "tag_keys": spec.labels or None}
            if spec.kind == "histogram":
                self._metrics[spec.name] = metrics.Histogram(
                    spec.name, boundaries=list(LATENCY_BOUNDARIES_MS), **options
                )
            else:
                self._metrics[spec.name] = (metrics.Counter if spec.kind == "counter" else metrics.Gauge)(
                    spec.name, **options
                )

    def changed(self, spec: MetricSpec, value: float, labels: Mapping[str, str]) -> None:
        """Implement `Mirror`."""
        metric = self._metrics[spec.name]
        tags = dict(labels)
        if spec.kind == "counter":
            if value > 0:
                metric.inc(value, tags=tags)
        elif spec.kind == "gauge":
            metric.set(value, tags=tags)
        else:
            metric.observe(value, tags=tags)
