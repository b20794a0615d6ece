"""How many replicas of a GPU stage are asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.serve")

from deployments.graph import scaling
from deployments.graph.scaling import ClusterGpus, as_many_as_fit, most_replicas
from tests.support.manual_clock import ManualClock


def context(requests: float, running: int = 1, least: int = 1) -> Any:
    return SimpleNamespace(
        current_num_replicas=running,
        target_num_replicas=running,
        total_num_requests=requests,
        capacity_adjusted_min_replicas=least,
        policy_state={},
        config=SimpleNamespace(get_target_ongoing_requests=lambda: 4.0, get_upscaling_factor=lambda: 1.0),
    )


def wanted(monkeypatch: pytest.MonkeyPatch, gpus: float, requests: float, **changes: Any) -> float:
    monkeypatch.setattr(scaling, "_gpus", ClusterGpus(lambda: {"GPU": gpus}))
    return as_many_as_fit(context(requests, **changes))[0]


def test_load_is_answered_within_the_gpus_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted(monkeypatch, 1.0, 40.0) == 1, "a second one would wait, and take the share of a stage that dies"
    assert wanted(monkeypatch, 4.0, 40.0) == 4
    assert wanted(monkeypatch, 16.0, 40.0) == 10, "no more than the load asks for"
    assert wanted(monkeypatch, 4.0, 2.0, running=3) == 0.5, "fewer when there is little to do"
    assert wanted(monkeypatch, 0.0, 40.0) == 10, "claimed none: stages run on CPUs"
    assert wanted(monkeypatch, 1.0, 0.0, running=0) == 0, "one that runs nowhere is asked for as before"


def test_a_node_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEANCHOR_GPUS_TO_COME", "1")
    assert wanted(monkeypatch, 1.0, 40.0) == 2
    for none in ("", "one", "-1", "1.5"):
        monkeypatch.setenv("LIVEANCHOR_GPUS_TO_COME", none)
        assert wanted(monkeypatch, 1.0, 40.0) == 1


def test_what_must_be_there_is_asked_for() -> None:
    assert most_replicas(1.0, 0, 2) == 2 and most_replicas(3.9, 0, 1) == 3 and most_replicas(2.0, 2, 1) == 4


def test_the_cluster_is_asked_now_and_then() -> None:
    clock = ManualClock()
    asked: list[int] = []

    def ask() -> dict[str, float]:
        asked.append(1)
        return {"GPU": float(len(asked))}

    gpus = ClusterGpus(ask, clock)
    assert [gpus.count(), gpus.count()] == [1.0, 1.0]
    clock.now += 2.5
    assert gpus.count() == 2.0
    assert ClusterGpus(dict).count() == 0.0
