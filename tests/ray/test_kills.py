"""Processes are killed in the middle of jobs; the files come out right, bit by bit."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future
from functools import partial
from typing import Any

import httpx
import pytest

from tests.ray.graph import JOB_S, Graph, speech_wav, wait_for

SPEECH_S = 3.0
TRIES = 8
"""Jobs that may be over before this process has looked, on a machine that gives it little time."""


@pytest.fixture(scope="module")
def speech() -> bytes:
    return speech_wav(SPEECH_S)


@pytest.fixture(scope="module")
def undisturbed(graph: Graph, speech: bytes) -> bytes:
    return graph.post(speech, seed=11).content


def under_way(graph: Graph, speech: bytes, name: str) -> Future[httpx.Response]:
    """A job of which some is made, and most is not."""
    for attempt in range(TRIES):
        job_id = f"kill-{name}-{attempt}"
        job = graph.in_background(speech, job_id, seed=11)
        made = wait_for("pictures", partial(made_at_least, graph, job_id, 8), every_s=0.05)
        if made < SPEECH_S * 25 / 2:
            return job
        assert job.result(timeout=JOB_S).status_code == 200
    raise AssertionError("always too late to disturb anything")


def made_at_least(graph: Graph, job_id: str, frames: int) -> int:
    """Frames that are made; 0 until there are so many."""
    return made if (made := graph.frames_done(job_id)) >= frames else 0


@pytest.mark.parametrize("deployment", ["AudioFeatures", "MotionDiffusion", "Renderer"])
def test_a_killed_stage_replica_does_not_cost_the_file(
    graph: Graph, speech: bytes, undisturbed: bytes, deployment: str
) -> None:
    job = under_way(graph, speech, deployment)
    killed = graph.kill(deployment)
    answer = job.result(timeout=JOB_S)
    assert answer.status_code == 200
    assert answer.content == undisturbed
    graph.replaced(deployment, killed)


def test_a_killed_host_costs_a_finished_file_nothing_but_time(graph: Graph, speech: bytes, undisturbed: bytes) -> None:
    job = under_way(graph, speech, "host")
    graph.kill("SessionHost")
    answer = job.result(timeout=JOB_S)
    assert answer.status_code == 200 and answer.content == undisturbed


def test_a_killed_host_breaks_a_streamed_file_visibly(graph: Graph) -> None:
    with httpx.stream(
        "POST",
        f"{graph.url}/generate",
        files={"audio": ("a.wav", speech_wav(30.0))},
        data={"stream": "true"},
        timeout=JOB_S,
    ) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        graph.kill("SessionHost")
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass
    wait_for("a new host", lambda: httpx.get(f"{graph.url}/readyz", timeout=30).status_code == 200)


def test_a_killed_controller_is_not_noticed(graph: Graph, speech: bytes, undisturbed: bytes) -> None:
    import ray

    before = controller_pid()
    job = under_way(graph, speech, "controller")
    os.kill(before, signal.SIGKILL)
    answer = job.result(timeout=JOB_S)
    assert answer.status_code == 200 and answer.content == undisturbed
    wait_for("another controller", lambda: controller_pid() not in (0, before))
    assert ray.is_initialized()
    assert graph.post(speech_wav(1.0)).status_code == 200


def test_a_killed_proxy_comes_back(graph: Graph) -> None:
    [pid] = only("ProxyActor")
    os.kill(pid, signal.SIGKILL)
    wait_for("HTTP to answer again", lambda: httpx.get(f"{graph.url}/healthz", timeout=30).status_code == 200)
    assert graph.post(speech_wav(1.0)).status_code == 200


def actor_pids(class_name: str) -> list[int]:
    from ray.util.state import list_actors

    found: list[Any] = list_actors(filters=[("state", "=", "ALIVE")], limit=1000)
    return [int(one.pid) for one in found if class_name in one.class_name]


def only(class_name: str) -> list[int]:
    """The process of the one such actor; another one may still be ending."""
    found: list[int] = wait_for(f"one {class_name}", lambda: len(pids := actor_pids(class_name)) == 1 and pids)
    return found


def controller_pid() -> int:
    return next(iter(actor_pids("ServeController")), 0)


def test_work_of_a_killed_ingress_ends_by_itself(graph: Graph) -> None:
    """Nobody tells a host that its caller died: the job runs to its own end, and holds nothing afterwards."""
    [pid] = only("ServeReplica:liveanchor:Ingress")
    with httpx.stream(
        "POST",
        f"{graph.url}/generate",
        files={"audio": ("a.wav", speech_wav(6.0))},
        data={"stream": "true"},
        timeout=JOB_S,
    ) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in pieces:
                pass
    wait_for("the orphan to end", lambda: not any(one.active_jobs for one in graph.host_stats()))
    wait_for("a new ingress", lambda: httpx.get(f"{graph.url}/healthz", timeout=30).status_code == 200)
    assert graph.post(speech_wav(1.0)).status_code == 200
