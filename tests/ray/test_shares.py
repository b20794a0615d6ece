"""GPU shares that are full: load asks for more replicas than have room, and one of those that run dies."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.ray.graph import JOB_S, Graph, speech_wav, wait_for

EAGER = {"target_ongoing_requests": 0.05, "upscale_delay_s": 0.0, "look_back_period_s": 1.0}
"""One call now and then is reason enough for more replicas."""


def test_no_stage_waits_for_room_and_takes_the_share_of_one_that_dies(graph: Graph) -> None:
    """With Ray Serve's own rule the second `MotionDiffusion` got the killed `Renderer`'s share, and no file was ever made again."""
    graph.resubmit("MotionDiffusion", autoscaling_config=EAGER)
    wav, done = speech_wav(4.0), threading.Event()

    def keep_busy(seed: int) -> list[int]:
        codes = []
        while not codes or not done.is_set():
            codes.append(graph.post(wav, f"shares-{seed}-{len(codes)}", JOB_S, seed=seed).status_code)
        return codes

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(keep_busy, seed) for seed in range(3)]
        try:
            wait_for("jobs to be under way", lambda: sum(len(one.active_jobs) for one in graph.host_stats()) >= 2)
            threading.Event().wait(8.0)
            assert len(graph.all_replicas("MotionDiffusion")) == 1, "a second one waits for room that there is not"
            killed = graph.kill("Renderer")
            graph.replaced("Renderer", killed)
        finally:
            done.set()
        assert {code for job in jobs for code in job.result(timeout=JOB_S)} == {200}
    graph.resubmit("MotionDiffusion")
