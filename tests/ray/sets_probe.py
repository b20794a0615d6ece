"""Whole sets on claimed GPUs, in a cluster and a process of its own: prints what was seen as one JSON object.

`python -m tests.ray.sets_probe NUMBER_OF_GPUS`. The cluster is started as `liveanchor serve --gpus` starts it.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import ray
from ray import serve

from deployments.config import DEPLOYMENT_NAMES, STAGE_NAMES
from serve_app.cluster.own import Cluster, details, free_port, private, submit
from serve_app.config.declare import serve_document, with_gpu_shares
from serve_app.config.settings import AppConfig

STAGES = [DEPLOYMENT_NAMES[name] for name in STAGE_NAMES]
PATIENCE_S = 120.0
QUICK = {"upscale_delay_s": 0.2, "downscale_delay_s": 1.0, "look_back_period_s": 1.0, "target_ongoing_requests": 2}
Placement = dict[str, list[str]]


def document(gpus: int, least: int) -> dict[str, Any]:
    """The product's document with the stages of `tests.ray.sets_app`, quick to scale."""
    made = serve_document(with_gpu_shares(AppConfig(), gpus), "127.0.0.1", free_port(), one_proxy=True)
    [application] = made["applications"]
    stages = [one for one in application["deployments"] if one["name"] in STAGES]
    for one in stages:
        one["autoscaling_config"] |= QUICK | {"min_replicas": least}
        one.pop("request_router_config", None)
    application |= {"import_path": "tests.ray.sets_app:build", "args": {}, "deployments": stages}
    return made


def replicas(cluster: Cluster) -> list[dict[str, Any]]:
    """Running replicas of the stages."""
    [application] = details(cluster).get("applications", {}).values() or [{}]
    found = application.get("deployments", {})
    return [
        one | {"stage": name}
        for name in STAGES
        for one in found.get(name, {}).get("replicas", [])
        if one["state"] == "RUNNING"
    ]


def placement(cluster: Cluster) -> Placement:
    """Node -> its stages, sorted."""
    by_node: Placement = {}
    for one in sorted(replicas(cluster), key=lambda one: str(one["stage"])):
        by_node.setdefault(one["node_id"], []).append(one["stage"])
    return by_node


def whole(found: Placement, sets: int) -> bool:
    """So many nodes, one of each stage on each."""
    return len(found) == sets and all(stages == sorted(STAGES) for stages in found.values())


def until(what: str, condition: Callable[[], bool]) -> None:
    """Wait; fails by name."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.2)):
        if condition():
            return
        pause.wait(0.2)
    raise TimeoutError(f"{what}: not within {PATIENCE_S:.0f} s")


class Probe:
    """One cluster under test."""

    def __init__(self, cluster: Cluster, gpus: int) -> None:
        self._cluster = cluster
        self._gpus = gpus
        self._draw = random.Random(gpus)
        self.mixed: list[Placement] = []

    def settle(self, what: str, sets: int) -> None:
        """Wait for whole sets; a node that holds two of a stage meanwhile is remembered."""

        def settled() -> bool:
            found = placement(self._cluster)
            if any(len(set(stages)) < len(stages) for stages in found.values()):
                self.mixed.append(found)
            return whole(found, sets)

        until(what, settled)

    def kill(self, which: list[tuple[str, str]]) -> None:
        """Kill replicas, given as (node, stage), in this order, and wait for their successors."""
        before = {(one["node_id"], one["stage"]): one for one in replicas(self._cluster)}
        dead = {before[key]["actor_id"] for key in which}
        for key in which:
            os.kill(before[key]["pid"], signal.SIGKILL)
        until("the dead to be noticed", lambda: not dead & {one["actor_id"] for one in replicas(self._cluster)})
        self.settle(f"whole sets after the death of {which}", self._gpus)

    def kills(self) -> int:
        """Kill in many orders; returns the number of rounds."""
        nodes = sorted(placement(self._cluster))
        pairs = list(itertools.product(nodes, STAGES))
        rounds = [
            [(nodes[0], stage) for stage in STAGES],  # a whole set, in the order of the flow
            [(nodes[-1], stage) for stage in reversed(STAGES)],
            [(node, "Renderer") for node in nodes],  # every one of a stage
            [(nodes[index % len(nodes)], stage) for index, stage in enumerate(STAGES)],  # one of each, on all nodes
            self._draw.sample(pairs, len(pairs) // 2),
            self._draw.sample(pairs, len(pairs)),
        ]
        for one in rounds:
            self.kill(one)
        return len(rounds)

    def scale(self) -> None:
        """From one set to all under load on one stage, and back when it is over."""
        submit(self._cluster, document(self._gpus, 1))
        self.settle("one set without load", 1)
        front = serve.get_app_handle("liveanchor")
        for stage in ("renderer", "audio_features"):
            load = front.busy.remote(stage, 2 * self._gpus + 2, 20.0)
            self.settle(f"all sets under load on {stage}", self._gpus)
            load.result(timeout_s=PATIENCE_S)
            self.settle("one set after the load", 1)


def main() -> None:
    """Run everything on so many claimed GPUs."""
    gpus = int(sys.argv[1])
    with private([str(index) for index in range(gpus)]) as cluster:
        nodes = [one for one in ray.nodes() if one["Alive"]]
        found: dict[str, Any] = {"nodes": len(nodes), "gpus": [one["Resources"].get("GPU") for one in nodes]}
        probe = Probe(cluster, gpus)
        submit(cluster, document(gpus, gpus))
        probe.settle("whole sets at a cold start", gpus)
        found["rounds"] = probe.kills()
        probe.scale()
        found["mixed"] = probe.mixed
    print(json.dumps(found))  # noqa: T201  # what the test reads


if __name__ == "__main__":
    main()
