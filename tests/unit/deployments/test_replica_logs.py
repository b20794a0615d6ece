"""Logs of replicas: JSON, named, without local variables; untouched outside a replica."""

from __future__ import annotations

import json
import pickle
from contextvars import copy_context
from types import SimpleNamespace

import pytest
import structlog

pytest.importorskip("ray.serve")

from ray.serve.context import _set_request_context

from deployments.graph.direct_call import DirectCall
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


def test_a_line_names_the_request_that_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("deployments.logs.serve.get_replica_context", lambda: SimpleNamespace(deployment="Renderer"))
    configure_replica_logs()
    log = structlog.get_logger()

    def served() -> None:
        _set_request_context(request_id="story-4711")
        log.info("stage_called")
        log.info("request", request_id="another-id")

    copy_context().run(served)
    copy_context().run(lambda: log.info("beat"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line.get("request_id") for line in lines] == ["story-4711", "another-id", None]


def test_a_call_past_ray_serves_router_keeps_the_id() -> None:
    def metadata() -> tuple[str, str]:
        found = pickle.loads(DirectCall("replica", "app")._metadata("end", streaming=False))  # noqa: S301  # made here
        return found.request_id, found.internal_request_id

    def served() -> tuple[str, str]:
        _set_request_context(request_id="story-4711")
        return metadata()

    request_id, internal = copy_context().run(served)
    assert request_id == "story-4711" != internal
    first, second = (copy_context().run(metadata)[0] for _ in range(2))
    assert first and first != second
