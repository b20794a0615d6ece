"""The stage deployments of `mini` without a cluster: the inference that makes them ready is also what the health check repeats."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.serve")

from deployments.config import RendererSettings, StageSettings
from deployments.graph.audio_features import AudioFeaturesReplica
from deployments.graph.errors import StageFailedError
from deployments.graph.motion_diffusion import MotionDiffusionReplica
from deployments.graph.renderer import RendererReplica

REPLICAS: dict[str, Any] = {
    "audio_features": lambda: AudioFeaturesReplica(StageSettings()),
    "motion_diffusion": lambda: MotionDiffusionReplica(StageSettings()),
    "renderer": lambda: RendererReplica(RendererSettings(cache_bytes=2**20, sessions_per_gpu=None)),
}


@pytest.mark.parametrize("stage", REPLICAS)
def test_a_replica_tries_itself_after_a_batch_that_nobody_can_explain(
    stage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    replica = REPLICAS[stage]()
    worker = replica._worker
    asyncio.run(replica.check_health())
    worker._suspect = True
    asyncio.run(replica.check_health())
    assert not worker._suspect, "it works"

    def broken(*args: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    for name in ("windows", "steps", "render"):
        monkeypatch.setattr(replica._stage, name, broken, raising=False)
    worker._suspect = True
    with pytest.raises(StageFailedError, match=f"{stage}.*illegal memory access"):
        asyncio.run(replica.check_health())
