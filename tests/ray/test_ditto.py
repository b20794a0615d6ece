"""The graph with `family: ditto` on a CPU: a fake folder in the full public layout, one frame of a file job."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import av
import httpx
import pytest

from tests.ray.graph import Graph, speech_wav
from tests.unit.ditto_support import write_folder

PREFIX = "/ditto"
APP = "ditto"


@pytest.fixture(scope="module")
def url(graph: Graph, home: Path) -> Iterator[str]:
    """Where the second application answers; it runs beside `mini` and is gone afterwards."""
    from ray import serve

    from serve_app.app import build_app
    from serve_app.config import AppConfig

    folder = home / "ditto-checkpoints"
    write_folder(folder, steps=2)
    names = ("ingress", "session_host", "audio_features", "motion_diffusion", "renderer", "rife")
    config = AppConfig.model_validate(
        {
            "models": {"family": "ditto", "weights_dir": str(folder), "device": "cpu"},
            "deadlines": {"stage_call_s": 280},
            "deployments": {name: {"num_cpus": 0.02, "max_replicas": 1} for name in names},
        }
    )
    serve.run(build_app(config), name=APP, route_prefix=PREFIX)
    yield f"{graph.url}{PREFIX}"
    serve.delete(APP)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(600)
def test_a_file_job_goes_through_the_graph(url: str) -> None:
    assert httpx.get(f"{url}/readyz", timeout=30).json() == {"status": "ready"}
    answer = httpx.post(f"{url}/generate", files={"audio": ("a.wav", speech_wav(0.04))}, timeout=280)
    assert answer.status_code == 200, answer.text
    with av.open(io.BytesIO(answer.content)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == 1 and frames[0].shape == (1280, 720, 3) and frames[0].std() > 10


def test_what_the_family_cannot_do_is_refused(url: str) -> None:
    answer = httpx.post(f"{url}/generate", files={"audio": ("a.wav", speech_wav(0.04))}, data={"fps": "50"}, timeout=60)
    assert answer.status_code == 422 and "50" in answer.text
