"""What `benchmarks.capacity` kills: replicas of stages, session hosts that have sessions, a Ray node with all its processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from benchmarks.core.process_memory import PROC, descendants
from benchmarks.graph.capacity_run import STAGES
from benchmarks.graph.gpu_service import stats_if_any
from benchmarks.graph.survival import Victim
from benchmarks.live.rig import replica_pids
from deployments.config import DEPLOYMENT_NAMES
from kernels.errors import LiveAnchorError
from serve_app.cluster.own import Cluster, details
from serve_app.config.declare import APP_NAME

HOST: Final = "SessionHost"
NODE_LOSS_S: Final = 15.0
"""Seconds for which viewers are looked at after a node died: a set that only seems to live costs them later."""
ASK_S: Final = 5.0


def stage_victims() -> list[Victim]:
    """A replica of each stage; it is back when as many as before answer, and none of the dead ones."""
    return [_stage(stage) for stage in STAGES]


def _stage(stage: str) -> Victim:
    many = 0

    def pids(number: int) -> list[int]:
        nonlocal many
        found = sorted(replica_pids(DEPLOYMENT_NAMES[stage]))
        many = len(found)
        return [found[number % many]] if found else []

    def back(dying: Sequence[int]) -> bool:
        now = {one.pid for one in stats_if_any(stage)}
        return len(now) >= many and not now & set(dying)

    return Victim(stage, pids, back)


def host_victim(cluster: Cluster) -> Victim:
    """The session host with most sessions; it is back when Ray Serve runs as many as before."""
    many = 0

    def pids(number: int) -> list[int]:
        nonlocal many
        running, busy = _hosts(cluster), _sessions_by_host()
        many = len(running)
        fullest = max(running, key=lambda replica: busy.get(replica, 0), default=None)
        return [running[fullest]] if fullest is not None else []

    def back(dying: Sequence[int]) -> bool:
        with suppress(LiveAnchorError):  # Ray's dashboard is asked again
            now = _hosts(cluster).values()
            return len(now) >= many and not set(now) & set(dying)
        return False

    return Victim("host", pids, back, moves=True)


def node_victim() -> Victim:
    """Every process of the node that joined last; nothing comes in its place."""
    return Victim("node", lambda number: last_node(), lambda dying: True, least_s=NODE_LOSS_S)


def last_node(root_pid: int | None = None, command_of: Callable[[int], str] | None = None) -> list[int]:
    """Processes of the node that `serve_app.cluster.gpu_nodes` started last; none where the head is alone.

    Args:
        root_pid: Process below which they are looked for; this one where None.
        command_of: Gives a process's command line.
    """
    read = command_of or _command
    starters = [
        pid for pid in descendants(root_pid or os.getpid()) if "ray.scripts.scripts start --address" in read(pid)
    ]
    newest = max(starters, default=None)
    return [] if newest is None else [newest, *descendants(newest)]


def _command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _hosts(cluster: Cluster) -> dict[str, int]:
    """Id -> process of the session hosts that Ray Serve calls running."""
    deployments = details(cluster)["applications"][APP_NAME]["deployments"]
    replicas: list[dict[str, Any]] = deployments[HOST]["replicas"]
    return {str(one["replica_id"]): int(one["pid"]) for one in replicas if one["state"] == "RUNNING" and one["pid"]}


def _sessions_by_host() -> dict[str, int]:
    """Id -> sessions; none where a host does not answer."""
    from ray import serve
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    try:
        answers = serve.get_deployment_handle(HOST, APP_NAME).broadcast("live_stats").results(timeout_s=ASK_S)
    except (RayError, RayServeException, TimeoutError):
        return {}
    return {one.replica_id: len(one.sessions) for one in answers}
