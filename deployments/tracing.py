"""Traces by OpenTelemetry, off unless the operator says so: Ray Serve makes the spans, this says where they go.

Ray Serve imports `otlp` in its proxies and replicas where RAY_SERVE_TRACING_EXPORTER_IMPORT_PATH names it (docs/operations.md). A
trace holds the way of one request through proxy, ingress, host and stages: names of deployments and methods, routes and status
codes. No arguments, so no speech, no pictures, no text and no keys.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kernels.errors import InvalidInputError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
IMPORT_PATH: Final = "deployments.tracing:otlp"


def otlp() -> list[SpanProcessor]:
    """Send spans in batches by OTLP over HTTP, to the collector that OpenTelemetry's own variables name.

    Raises:
        InvalidInputError: No collector is named, or the exporter is not installed.
    """
    named = next((name for name in ENDPOINTS if os.environ.get(name)), "")
    if not named:
        raise InvalidInputError(ENDPOINTS[1], "nothing", "the address of a collector, such as http://collector:4318")
    if find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        raise InvalidInputError(named, "a collector", "pip install 'liveanchor[tracing]' in the environment of Ray")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return [BatchSpanProcessor(OTLPSpanExporter())]
