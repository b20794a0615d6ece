"""50 frames/s through `Rife` in the graph on real faces: `mini` told to leave it to the interpolator, random weights of 4.25."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch

from tests.ray.graph import JOB_S, Graph, speech_wav, wait_for

PREFIX = "/rife"
APP = "rife"
SPEECH_S = 0.8
JOB = {"fps": "50", "chunk_frames": "4", "seed": "11"}


@pytest.fixture(scope="module")
def url(graph: Graph, home: Path) -> Iterator[str]:
    """Where the second application answers; it runs beside the first and is gone afterwards."""
    from ray import serve
    from safetensors.torch import save_file

    from engines.networks import build
    from serve_app.app import build_app
    from serve_app.config.settings import AppConfig

    folder = home / "data" / "weights" / "rife"
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(4)
    save_file(build("rife/4.25").state_dict(), folder / "flownet.safetensors")
    names = ("ingress", "session_host", "audio_features", "motion_diffusion", "renderer", "rife")
    config = AppConfig.model_validate(
        {
            "session": {"interpolate": "rife"},
            "rife": {"network": "4.25", "allow_cpu": True},
            "deadlines": {"stage_call_s": 600},
            "deployments": {name: {"num_cpus": 0.02, "min_replicas": 1, "max_replicas": 1} for name in names},
        }
    )
    serve.run(build_app(config), name=APP, route_prefix=PREFIX)
    yield f"{graph.url}{PREFIX}"
    serve.delete(APP)
    shutil.rmtree(folder)


def post(url: str, job_id: str) -> httpx.Response:
    headers, files = {"X-Request-Id": job_id}, {"audio": ("a.wav", speech_wav(SPEECH_S))}
    return httpx.post(f"{url}/generate", files=files, data=JOB, headers=headers, timeout=JOB_S)


def pids(deployment: str) -> list[int]:
    from ray import serve

    stats = serve.get_deployment_handle(deployment, APP).broadcast("stats").results(timeout_s=JOB_S)
    return [one.pid for one in stats]


@pytest.fixture(scope="module")
def local_file(home: Path, environment: None, url: str) -> bytes:
    """The same job in this process."""
    from pipeline.config import RifeSettings, SessionSettings
    from pipeline.media.audio_in import decode_audio
    from pipeline.session.local_job import LocalPipeline

    pipeline = LocalPipeline(rife=RifeSettings(network="4.25", allow_cpu=True))
    settings = SessionSettings.model_validate({"fps": 50, "chunk_frames": 4, "interpolate": "rife"})
    out = home / "rife.mp4"
    pipeline.generate_file(decode_audio(speech_wav(SPEECH_S)), out, pipeline.avatar(), settings, seed=11)
    pipeline.close()
    return out.read_bytes()


def test_the_graph_makes_the_very_file_that_one_process_makes(url: str, local_file: bytes) -> None:
    answer = post(url, "rife-whole")
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-frames"] == "40" and answer.headers["x-fps"] == "50"
    assert answer.content == local_file


@pytest.mark.parametrize(
    "deployment",
    [
        "Rife",
        pytest.param(
            "Renderer", marks=pytest.mark.nightly("test_kills kills a Renderer, this test a stage that is fed by one")
        ),
    ],
)
def test_a_killed_replica_does_not_cost_the_file(url: str, local_file: bytes, deployment: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    name = f"rife-kill-{deployment}"
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(post, url, name)
        wait_for(
            "the job to be under way",
            lambda: httpx.get(f"{url}/jobs/{name}", timeout=30).raise_for_status().json()["frames_done"] >= 7,
            JOB_S,
        )
        before = pids(deployment)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        answer = job.result(timeout=JOB_S)
    assert answer.status_code == 200, answer.text
    assert answer.content == local_file
    wait_for("a new replica", lambda: (now := set(pids(deployment))) and not now & set(before))
