"""GPU shares that are full: load asks for more replicas than have room, and one of those that run dies."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import ray

from tests.ray.graph import JOB_S, Graph, speech_wav, wait_for

TARGETS = {"MotionDiffusion": 0.01, "Renderer": 1.0}
"""Calls in flight that ask for more replicas: a file keeps several in flight at the renderer, and now and then one before it."""


def test_no_stage_waits_for_room_and_takes_the_share_of_one_that_dies(graph: Graph) -> None:
    """A second `MotionDiffusion` that waited got the killed `Renderer`'s share, and no file was ever made again."""
    eager = copy.deepcopy(graph.document)
    for one in eager["applications"][0]["deployments"]:
        if one["name"] in TARGETS:
            changes = {
                "target_ongoing_requests": TARGETS[one["name"]],
                "upscale_delay_s": 0.5,
                "downscale_delay_s": 1.0,
                "look_back_period_s": 1.0,
            }
            one["autoscaling_config"] |= changes
    # what other tests added must be gone: a node that was removed counts until Ray has noticed
    wait_for("one GPU", lambda: ray.cluster_resources().get("GPU") == 1.0)
    graph.submit(eager)
    wait_for("one replica of each", lambda: all(len(graph.all_replicas(name)) == 1 for name in TARGETS))
    wav, done = speech_wav(1.0), threading.Event()

    def keep_busy(seed: int) -> list[int]:
        codes = []
        while not codes or not done.is_set():
            codes.append(graph.post(wav, f"shares-{seed}-{len(codes)}", JOB_S, seed=seed).status_code)
        return codes

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(keep_busy, seed) for seed in range(3)]
        try:
            wait_for("jobs to be under way", lambda: sum(len(one.active_jobs) for one in graph.host_stats()) >= 2)
            threading.Event().wait(4.0)  # the autoscaler decides anew every 0.25 s, on what it saw in 1 s
            for name in TARGETS:
                assert len(graph.all_replicas(name)) == 1, f"a second {name} waits for room that there is not"
            killed = graph.kill("Renderer")
            graph.replaced("Renderer", killed)
        finally:
            done.set()
            graph.submit(graph.document)
        assert {code for job in jobs for code in job.result(timeout=JOB_S)} == {200}
