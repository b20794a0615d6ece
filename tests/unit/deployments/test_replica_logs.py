"""Logs of replicas: JSON, named, without local variables; untouched outside a replica."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import structlog

pytest.importorskip("ray.serve")

from deployments.logs import configure_replica_logs


def test_a_replica_logs_json_without_locals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("deployments.logs.serve.get_replica_context", lambda: SimpleNamespace(deployment="Renderer"))
    configure_replica_logs()
    try:
        heard = "pcm-bytes-of-a-person"
        raise ValueError(len(heard))
    except ValueError:
        structlog.get_logger().exception("failed", session_id="s1")
    line = capsys.readouterr().err.strip()
    event = json.loads(line)
    assert (event["event"], event["deployment"], event["session_id"]) == ("failed", "Renderer", "s1")
    assert event["exception"][0]["exc_type"] == "ValueError" and "pcm-bytes" not in line


def test_outside_a_replica_nothing_changes() -> None:
    configure_replica_logs()
    assert not structlog.is_configured()
