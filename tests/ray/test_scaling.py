"""Load takes a stage from one replica to two, on a second node, and back; every file comes out."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import av
import httpx

from tests.ray.graph import JOB_S, STAGES, Graph, speech_wav, wait_for

JOBS = 4
SPEECH_S = 6.0
"""Longer than it takes Ray Serve to begin a change."""
SHORT_S = 1.0


def test_a_rolling_change_under_load_loses_no_job(graph: Graph) -> None:
    """Changed `args` replace every replica; jobs under way finish where they are, later ones wait for the new replicas."""
    wav = speech_wav(SPEECH_S)
    expected = graph.post(wav, seed=1).content
    before = {name: set(graph.pids(name)) for name in (*STAGES, "SessionHost")}
    with ThreadPoolExecutor(4) as pool:
        first = [pool.submit(graph.post, wav, f"rolling-a-{index}", JOB_S, seed=1) for index in range(2)]
        wait_for("jobs to be under way", lambda: sum(len(one.active_jobs) for one in graph.host_stats()) >= 1)
        graph.change_args({"limits": {"max_audio_s": 599.0}})
        later = [pool.submit(graph.post, wav, f"rolling-b-{index}", JOB_S, seed=1) for index in range(2)]
        answers = [job.result(timeout=JOB_S) for job in first + later]
    assert [answer.status_code for answer in answers] == [200] * 4, [answer.text[:500] for answer in answers]
    for answer in answers:
        with av.open(io.BytesIO(answer.content)) as container:
            assert sum(1 for _ in container.decode(video=0)) == int(SPEECH_S * 25)
    wait_for("all new", lambda: all(not before[name] & set(graph.pids(name)) for name in before))
    assert graph.post(wav, seed=1).content == expected


def test_jobs_take_the_renderer_to_two_nodes_and_back(graph: Graph, nodes: Any) -> None:
    """The change of settings is made under load, so this is also a rolling change that loses no job."""
    second = nodes.add_node(num_cpus=2, num_gpus=1, object_store_memory=256 * 2**20)
    wav = speech_wav(SHORT_S)
    seen = threading.Event()

    def keep_busy(seed: int) -> list[httpx.Response]:
        """One job after the other until both renderers have been seen: a second one takes a while to start."""
        answers = []
        while not answers or not seen.is_set():
            answers.append(graph.post(wav, f"scale-job-{seed}-{len(answers)}", JOB_S, seed=seed))
        return answers

    with ThreadPoolExecutor(JOBS) as pool:
        jobs = [pool.submit(keep_busy, seed) for seed in range(JOBS)]
        wait_for("jobs to be under way", lambda: sum(len(one.active_jobs) for one in graph.host_stats()) >= 2)
        pid = graph.pids("Renderer")
        graph.resubmit(
            "Renderer",
            autoscaling_config={
                "max_replicas": 2,
                "target_ongoing_requests": 1,
                "upscale_delay_s": 0.5,
                "downscale_delay_s": 2.0,
                "look_back_period_s": 1.0,
            },
        )
        try:
            both = wait_for("two renderers", lambda: len(found := graph.replicas("Renderer")) == 2 and found)
            assert pid[0] in graph.pids("Renderer"), "a change of scaling restarted the replica"
        finally:
            seen.set()
        answers = [answer for job in jobs for answer in job.result(timeout=JOB_S)]
    assert {one["node_id"] for one in both} >= {second.node_id}, "the second replica has room on the second node only"
    for answer in answers:
        assert answer.status_code == 200, answer.text
        with av.open(io.BytesIO(answer.content)) as container:
            assert sum(1 for _ in container.decode(video=0)) == int(SHORT_S * 25)
    wait_for("one renderer again", lambda: len(graph.replicas("Renderer")) == 1)
    assert graph.post(speech_wav(1.0)).status_code == 200
    graph.resubmit("Renderer")
    nodes.remove_node(second)
