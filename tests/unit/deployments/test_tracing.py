"""Traces: Ray Serve's own spans reach a collector, and without a collector's name nothing is said in silence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("ray.serve")

from opentelemetry.sdk.trace import TracerProvider
from ray.serve._private import tracing_utils

from deployments import tracing
from kernels.errors import InvalidInputError


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    seen: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    thread.join(30)
    server.server_close()


def test_spans_reach_the_collector(
    monkeypatch: pytest.MonkeyPatch, collector: tuple[str, list[tuple[str, bytes]]]
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    address, seen = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    processors = tracing_utils._load_span_processors(tracing.IMPORT_PATH, "")  # as Ray Serve's replicas do it
    provider = TracerProvider()
    for one in processors:
        provider.add_span_processor(one)
    with provider.get_tracer("ray.serve").start_as_current_span("replica_handle_request liveanchor SessionHost"):
        pass
    provider.shutdown()
    [(path, body)] = seen
    assert path == "/v1/traces" and b"replica_handle_request liveanchor SessionHost" in body


def test_a_collector_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tracing.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidInputError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        tracing.otlp()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(tracing, "find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match=r"liveanchor\[tracing\]"):
        tracing.otlp()
