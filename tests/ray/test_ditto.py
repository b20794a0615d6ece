"""The graph with `family: ditto` on a CPU: a fake folder in the full public layout, a frame of a file in each of two modes."""

from __future__ import annotations

import asyncio
import io
import shutil
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import pytest

from benchmarks.ditto.checkpoint_folder import write_folder
from deployments.graph.payload import Payload
from deployments.host.jobs import FileJob, JobBytes, JobDone
from pipeline.config import FileMotion, SessionSettings
from tests.ray.conftest import START_S
from tests.ray.graph import JOB_S, Graph, speech_wav, wait_for

pytestmark = pytest.mark.nightly(
    "six processes load networks in full size to draw one frame, a seventh of the tier's time; tests/unit compares both motions "
    "through the same stages, and test_graph and test_own_family compare what the graph makes with what one process makes"
)
PREFIX = "/ditto"
APP = "ditto"
SPEECH = speech_wav(0.04)


@pytest.fixture(scope="module")
def weights(home: Path) -> Iterator[Path]:
    folder = home / "ditto-checkpoints"
    write_folder(folder, steps=2)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def url(graph: Graph, weights: Path) -> Iterator[str]:
    """Where the second application answers; it runs beside `mini` and is gone afterwards."""
    from ray import serve

    from serve_app.cluster.own import details
    from serve_app.config.declare import serve_document
    from serve_app.config.settings import AppConfig

    names = ("ingress", "session_host", "audio_features", "motion_diffusion", "renderer", "rife")
    config = AppConfig.model_validate(
        {
            "models": {"family": "ditto", "weights_dir": str(weights), "device": "cpu"},
            "deadlines": {"stage_call_s": 600},
            "deployments": {name: {"num_cpus": 0.02, "max_replicas": 1} for name in names},
        }
    )
    [second] = serve_document(config, "127.0.0.1", 1)["applications"]
    second |= {"name": APP, "route_prefix": PREFIX}
    graph.submit({**graph.document, "applications": [*graph.document["applications"], second]})

    def status() -> str:
        found: str = details(graph.cluster)["applications"][APP]["status"]
        assert found != "DEPLOY_FAILED", details(graph.cluster)["applications"][APP]["message"]
        return found

    wait_for("the second application runs", lambda: status() == "RUNNING", START_S)
    yield f"{graph.url}{PREFIX}"
    serve.delete(APP)
    graph.submit(graph.document)  # a controller that starts again deploys what it was given last


@pytest.fixture(scope="module")
def local_ditto(url: str, weights: Path, home: Path) -> Iterator[Any]:
    """motion -> the bytes of the file that one process makes (after the graph has drawn the default presenter)."""
    from pipeline.media.audio_in import decode_audio
    from pipeline.session.local_job import LocalPipeline

    pipeline = LocalPipeline(family="ditto", weights=weights)

    def make(motion: FileMotion) -> bytes:
        out = home / "ditto.mp4"
        pipeline.generate_file(decode_audio(SPEECH), out, pipeline.avatar(), SessionSettings(file_motion=motion))
        return out.read_bytes()

    yield make
    pipeline.close()


def picture(data: bytes) -> Any:
    with av.open(io.BytesIO(data)) as container:
        [frame] = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return frame


def test_a_file_job_goes_through_the_graph_with_offline_motion(url: str, local_ditto: Any) -> None:
    assert httpx.get(f"{url}/readyz", timeout=JOB_S).json() == {"status": "ready"}
    answer = httpx.post(f"{url}/generate", files={"audio": ("a.wav", SPEECH)}, timeout=JOB_S)
    assert answer.status_code == 200, answer.text
    assert picture(answer.content).shape == (1280, 720, 3) and picture(answer.content).std() > 10
    assert answer.content == local_ditto("offline"), "bit for bit what one process makes"


def test_a_file_job_goes_through_the_graph_with_a_live_session_s_motion(url: str, local_ditto: Any) -> None:
    from ray import serve

    handle: Any = serve.get_deployment_handle("SessionHost", APP).options(method_name="generate_stream", stream=True)

    async def run() -> tuple[bytes, JobDone]:
        pieces: dict[int, bytes] = {}
        events: AsyncGenerator[Any, None] = handle.remote(
            FileJob("live-1", Payload(SPEECH), None, SessionSettings(file_motion="low_latency"))
        )
        async for event in events:
            if isinstance(event, JobBytes):
                pieces[event.offset] = event.data
        assert isinstance(event, JobDone)
        return b"".join(pieces[offset] for offset in sorted(pieces)), event

    data, done = asyncio.run(run())
    assert done.stage_calls == {"audio_features": 1, "motion_diffusion": 2, "renderer": 1}, "set-up, then one hop"
    assert picture(data).shape == (1280, 720, 3)
    assert data == local_ditto("low_latency"), "bit for bit what one process makes"


def test_what_the_family_cannot_do_is_refused(url: str) -> None:
    answer = httpx.post(f"{url}/generate", files={"audio": ("a.wav", SPEECH)}, data={"fps": "50"}, timeout=JOB_S)
    assert answer.status_code == 422 and answer.json()["field"] == "fps"
    assert "rife.allow_cpu" in answer.json()["detail"], answer.text
