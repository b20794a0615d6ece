"""The graph with a family that only an entry point names: no motion stage runs, and a file is what one process makes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline import families
from tests.ray.conftest import START_S
from tests.ray.graph import JOB_S, Graph, speech_wav, wait_for

APP = "bar"
PREFIX = "/bar"
ENTRY = Path(__file__).resolve().parents[1] / "support" / "bar_package"
SPEECH = speech_wav(0.4)


@pytest.fixture(scope="module")
def url(graph: Graph) -> Iterator[str]:
    """Where the second application answers; its processes find the family as that of an installed package."""
    from ray import serve

    from serve_app.cluster.own import details
    from serve_app.config.declare import serve_document
    from serve_app.config.settings import AppConfig

    sys.path.insert(0, str(ENTRY))
    families.installed_families.cache_clear()
    config = AppConfig.model_validate(
        {
            "models": {"family": "bar", "device": "cpu"},
            "deployments": {
                name: {"num_cpus": 0.02, "max_replicas": 1}
                for name in ("ingress", "session_host", "audio_features", "renderer", "rife")
            },
        }
    )
    [second] = serve_document(config, "127.0.0.1", 1)["applications"]
    paths = os.pathsep.join((os.environ["PYTHONPATH"], str(ENTRY)))
    second |= {"name": APP, "route_prefix": PREFIX, "runtime_env": {"env_vars": {"PYTHONPATH": paths}}}
    graph.submit({**graph.document, "applications": [*graph.document["applications"], second]})

    def status() -> str:
        found: str = details(graph.cluster)["applications"][APP]["status"]
        assert found != "DEPLOY_FAILED", details(graph.cluster)["applications"][APP]["message"]
        return found

    wait_for("the second application runs", lambda: status() == "RUNNING", START_S)
    yield f"{graph.url}{PREFIX}"
    serve.delete(APP)
    graph.submit(graph.document)  # a controller that starts again deploys what it was given last
    sys.path.remove(str(ENTRY))
    families.installed_families.cache_clear()


def test_a_file_goes_through_the_graph_without_a_motion_stage(url: str, graph: Graph, tmp_path: Path) -> None:
    from pipeline.media.audio_in import decode_audio
    from pipeline.session.local_job import LocalPipeline
    from serve_app.cluster.own import details

    deployments: dict[str, Any] = details(graph.cluster)["applications"][APP]["deployments"]
    assert set(deployments) == {"Ingress", "SessionHost", "AudioFeatures", "Renderer", "Rife"}
    assert httpx.get(f"{url}/readyz", timeout=JOB_S).json() == {"status": "ready"}
    answer = httpx.post(f"{url}/generate", files={"audio": ("a.wav", SPEECH)}, timeout=JOB_S)
    assert answer.status_code == 200, answer.text
    pipeline, out = LocalPipeline(family="bar"), tmp_path / "bar.mp4"
    pipeline.generate_file(decode_audio(SPEECH), out, pipeline.avatar())
    assert answer.content == out.read_bytes(), "bit for bit what one process makes"
    pipeline.close()
