"""The graph makes the same files as one process, alone and batched, and forgets jobs that nobody waits for."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest

from tests.ray.graph import JOB_S, STAGES, Graph, speech_wav, wait_for


def test_serve_config_runs_on_a_claimed_gpu(graph: Graph) -> None:
    import ray

    assert httpx.get(f"{graph.url}/readyz", timeout=JOB_S).json() == {"status": "ready"}
    wait_for("every share to be reserved on the one GPU", lambda: ray.available_resources().get("GPU", 0.0) < 1e-3)
    for stage in STAGES:
        assert len(graph.replicas(stage)) == 1
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert [os.getpriority(os.PRIO_PROCESS, pid) for name in (*STAGES, "SessionHost") for pid in graph.pids(name)] == [
        own
    ] * 4, "replicas yield to whatever else the machine does"


@pytest.mark.parametrize(("fps", "chunk_frames"), [(25, 8), (50, 16)])
def test_one_session_gives_the_bits_of_one_process(graph: Graph, local_file: Any, fps: int, chunk_frames: int) -> None:
    wav = speech_wav(1.2)
    answer = graph.post(wav, seed=5, fps=fps, chunk_frames=chunk_frames)
    assert answer.status_code == 200 and answer.headers["content-type"] == "video/mp4"
    assert answer.headers["x-frames"] == str(round(1.2 * fps))
    assert answer.content == local_file(wav, seed=5, fps=fps, chunk_frames=chunk_frames)


def test_a_streamed_file_starts_early_and_is_whole(graph: Graph) -> None:
    """On a machine that gives this process little time, a job may be over before it has looked: then the next one is."""
    assert any(streamed(graph, f"streamed-{attempt}") for attempt in range(5)), "first bytes came when jobs were over"


def streamed(graph: Graph, job_id: str) -> bool:
    """Make a file of 100 pictures, streamed; whether its first bytes came while it was being made."""
    pieces: list[bytes] = []
    early = False
    with httpx.stream(
        "POST",
        f"{graph.url}/generate",
        files={"audio": ("a.wav", speech_wav(4.0))},
        data={"seed": "5", "stream": "true"},
        headers={"X-Request-Id": job_id},
        timeout=JOB_S,
    ) as answer:
        assert answer.status_code == 200 and answer.headers["x-frames"] == "100"
        for data in answer.iter_raw():
            if not pieces:
                job = httpx.get(f"{graph.url}/jobs/{job_id}", timeout=JOB_S).json()
                early = job["state"] == "working" and job["frames_done"] < 100
            pieces.append(data)
    assert len(pieces) >= 5 and pieces[0][4:8] == b"ftyp"
    with av.open(io.BytesIO(b"".join(pieces))) as container:
        assert sum(1 for _ in container.decode(video=0)) == 100
    return early


def test_batched_calls_equal_single_ones(graph: Graph, local_stages: Any) -> None:
    """Six sessions at once: motion within 1e-5 relative (by norm), pixels within one level of the same calls alone."""
    from ray import serve

    from deployments.graph.calls import CallContext
    from engines.motion_layout import EXP, PITCH, ROLL, SCALE, TRANSLATION
    from pipeline.mini.idle_motion import idle_motion
    from pipeline.mini.motion_diffusion import initial_carry
    from pipeline.stages import RenderRequest

    info, avatar_id = local_stages.info, local_stages.avatar_id
    rng = np.random.default_rng(0)
    length = info.context_samples + info.hop_frames * 640 + info.lookahead_samples
    windows = [(0.1 * rng.standard_normal(length)).astype(np.float32) for _ in range(6)]
    carries = [initial_carry(seed, idle_motion(seed, 0, info.history_frames)) for seed in range(6)]
    handles = {name: serve.get_deployment_handle(name, "liveanchor") for name in STAGES}

    async def alone() -> list[tuple[Any, Any]]:
        made = []
        for window, carry in zip(windows, carries, strict=True):
            rows = await local_stages.audio_features(window, 0)
            motion, _ = await local_stages.motion_diffusion(rows, carry)
            made.append((motion, await local_stages.renderer(RenderRequest(avatar_id, motion, None, 25, "bt709"))))
        return made

    expected = asyncio.run(alone())
    contexts = [CallContext(f"batch-{index}", 60_000.0) for index in range(6)]
    asked = [
        handles["AudioFeatures"].rows.remote(window, 0, context)
        for window, context in zip(windows, contexts, strict=True)
    ]
    rows = [one.result(timeout_s=JOB_S) for one in asked]  # so that what comes next comes at once
    motions = [
        handles["MotionDiffusion"].motion.remote(one, carry, context)
        for one, carry, context in zip(rows, carries, contexts, strict=True)
    ]
    answers = [one.result(timeout_s=JOB_S)[0] for one in motions]
    pictures = [
        handles["Renderer"].render.remote(RenderRequest(avatar_id, motion, None, 25, "bt709"), context)
        for motion, context in zip(answers, contexts, strict=True)
    ]
    for (motion, picture), got_motion, got_picture in zip(
        expected, answers, [one.result(timeout_s=JOB_S) for one in pictures], strict=True
    ):
        for part in (SCALE, slice(PITCH.start, ROLL.stop), TRANSLATION, EXP):
            expected_part, got_part = motion.motion[:, part], got_motion.motion[:, part]
            assert np.linalg.norm(got_part - expected_part) <= 1e-5 * np.linalg.norm(expected_part)
        for plane in ("y_planes", "uv_planes"):
            difference = np.abs(getattr(got_picture, plane).astype(int) - getattr(picture, plane).astype(int))
            assert difference.max() <= 1
    assert max(one.largest_batch for one in graph.stage_stats("MotionDiffusion")) >= 2, "nothing was batched"


def test_parallel_jobs_are_all_right(graph: Graph) -> None:
    wavs = [speech_wav(1.0, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda one: graph.post(one[1], seed=one[0]), enumerate(wavs)))
    for answer in answers:
        assert answer.status_code == 200
        with av.open(io.BytesIO(answer.content)) as container:
            assert sum(1 for _ in container.decode(video=0)) == 25
    assert len({answer.content for answer in answers}) == 4


def test_a_client_that_goes_away_stops_the_work(graph: Graph) -> None:
    cancelled = sum(one.cancelled for one in graph.host_stats())
    with httpx.stream(
        "POST",
        f"{graph.url}/generate",
        files={"audio": ("a.wav", speech_wav(60.0))},
        data={"stream": "true"},
        timeout=JOB_S,
    ) as answer:
        next(answer.iter_raw())
    wait_for("the job to be cancelled", lambda: sum(one.cancelled for one in graph.host_stats()) == cancelled + 1)
    assert all(not one.active_jobs for one in graph.host_stats())
    graph.come_to_rest()


def test_a_bad_file_gets_its_problem_and_the_next_good_one_works(graph: Graph) -> None:
    answer = graph.post(b"not audio at all")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"].endswith("audio_unreadable") and "Traceback" not in problem["detail"]
    assert "\n" not in problem["detail"] and "audio" in problem["detail"]
    unknown = graph.post(speech_wav(1.0), avatar_id="0" * 32)
    assert unknown.status_code == 404 and "0" * 32 in unknown.json()["detail"]
    assert graph.post(speech_wav(1.0)).status_code == 200


def test_the_command_line_finds_the_running_graph(graph: Graph, nodes: Any, home: Path) -> None:
    """`generate_remote` in a process of its own, with nothing but RAY_ADDRESS."""
    source, out = home / "cli.wav", home / "cli.mp4"
    wav = speech_wav(1.0)
    source.write_bytes(wav)
    code = (
        "import sys; from pathlib import Path; from serve_app.cli.remote import Speech, generate_remote;"
        "print(generate_remote(Speech(Path(sys.argv[1])), Path(sys.argv[2]), seed=3))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(out)],
        env={**os.environ, "RAY_ADDRESS": nodes.address},
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=True,
    )
    assert done.stdout.split()[-1] == "25"
    assert out.read_bytes() == graph.post(wav, seed=3).content


def test_prometheus_sees_every_stage(graph: Graph) -> None:
    import ray

    assert graph.post(speech_wav(1.0)).status_code == 200
    [port] = {node["MetricsExportPort"] for node in ray.nodes() if node["Alive"]}
    wanted = [
        *(
            f'ray_liveanchor_stage_{name}{{stage="{stage}"'
            for stage in ("audio_features", "motion_diffusion", "renderer")
            for name in ("batch_size_count", "batch_ms_bucket", "wait_ms_sum", "queue_length", "frames_total")
        ),
        'ray_liveanchor_jobs_ended_total{outcome="finished"',
    ]

    def exported() -> bool:
        lines = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text.splitlines()
        missing = [one for one in wanted if not any(_is_sample_of(one, line) for line in lines)]
        if missing:
            raise OSError(f"not exported yet: {missing}")
        return True

    wait_for("the metrics", exported, every_s=1.0)


def _is_sample_of(wanted: str, line: str) -> bool:
    name, tag = wanted.split("{")
    return line.startswith(f"{name}{{") and tag in line
