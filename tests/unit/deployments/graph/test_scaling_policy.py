"""How many sets of GPU stages are asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.serve")

from ray.serve._private.common import DeploymentID

from deployments.graph import scaling
from deployments.graph.scaling import GpuNodes, most_sets, whole_sets
from tests.support.manual_clock import ManualClock

STAGES = ("AudioFeatures", "MotionDiffusion", "Renderer", "Rife")


def context(requests: float, running: int = 1, least: int = 1) -> Any:
    return SimpleNamespace(
        current_num_replicas=running,
        target_num_replicas=running,
        total_num_requests=requests,
        capacity_adjusted_min_replicas=least,
        policy_state={},
        config=SimpleNamespace(get_target_ongoing_requests=lambda: 4.0, get_upscaling_factor=lambda: 1.0),
    )


def node(gpus: float, alive: bool = True) -> dict[str, Any]:
    return {"Alive": alive, "Resources": {"CPU": 8.0} | ({"GPU": gpus} if gpus else {})}


def wanted(monkeypatch: pytest.MonkeyPatch, nodes: int, **requests: float) -> dict[str, float]:
    """Replicas per deployment; stages that are not named have nothing to do."""
    monkeypatch.setattr(scaling, "_gpu_nodes", GpuNodes(lambda: [node(1.0)] * nodes))
    load = dict.fromkeys(STAGES, 0.0) | requests
    answer, states = whole_sets({DeploymentID(name, "liveanchor"): context(load[name]) for name in load})
    assert set(answer) == set(states)
    return {key.name: count for key, count in answer.items()}


def test_the_busiest_stage_decides_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for busy in STAGES:
        assert wanted(monkeypatch, 4, **{busy: 10.0}) == dict.fromkeys(STAGES, 3)


def test_no_more_sets_than_there_are_nodes_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted(monkeypatch, 1, Renderer=40.0) == dict.fromkeys(STAGES, 1)
    assert wanted(monkeypatch, 4, Renderer=40.0) == dict.fromkeys(STAGES, 4)
    assert wanted(monkeypatch, 16, Renderer=40.0) == dict.fromkeys(STAGES, 10)


def test_an_idle_cluster_keeps_one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted(monkeypatch, 4) == dict.fromkeys(STAGES, 1)


def test_the_minimum_is_asked_for_although_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "_gpu_nodes", GpuNodes(lambda: [node(1.0)]))
    contexts = {DeploymentID(name, "a"): context(0.0, least=2 if name == "Renderer" else 1) for name in STAGES}
    assert set(whole_sets(contexts)[0].values()) == {2.0}
    assert most_sets(1, 0, 2) == 2 and most_sets(3, 0, 1) == 3 and most_sets(2, 2, 1) == 4


def test_hosts_and_ingress_scale_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    found = wanted(monkeypatch, 2, SessionHost=20.0, Ingress=2.0, Renderer=5.0)
    assert found == {**dict.fromkeys(STAGES, 2), "SessionHost": 5.0, "Ingress": 0.5}


def test_without_gpus_every_stage_scales_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted(monkeypatch, 0, Renderer=40.0, Rife=4.0) == {
        "AudioFeatures": 0.0,
        "MotionDiffusion": 0.0,
        "Renderer": 10.0,
        "Rife": 1.0,
    }


def test_a_node_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEANCHOR_GPUS_TO_COME", "1")
    assert wanted(monkeypatch, 1, Renderer=40.0)["Rife"] == 2
    for none in ("", "one", "-1", "1.5"):
        monkeypatch.setenv("LIVEANCHOR_GPUS_TO_COME", none)
        assert wanted(monkeypatch, 1, Renderer=40.0)["Rife"] == 1


def test_only_living_nodes_with_a_whole_gpu_count() -> None:
    assert GpuNodes(lambda: [node(0), node(1), node(1, alive=False), node(0.5), node(1)]).count() == 2
    assert GpuNodes(list).count() == 0


def test_a_node_with_two_gpus_is_one_set() -> None:
    assert GpuNodes(lambda: [node(2)]).count() == 1


def test_the_cluster_is_asked_now_and_then() -> None:
    clock = ManualClock()
    asked: list[int] = []

    def ask() -> list[dict[str, Any]]:
        asked.append(1)
        return [node(1)] * len(asked)

    nodes = GpuNodes(ask, clock)
    assert [nodes.count(), nodes.count()] == [1, 1]
    clock.now += 2.5
    assert nodes.count() == 2
