"""The deployment `Rife` without a cluster: what it says it can do, and what it does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray.serve")

from deployments.config import RifeStageSettings
from deployments.graph.calls import CallContext
from deployments.graph.rife import RifeReplica
from kernels.errors import InvalidInputError
from pipeline.config import RifeSettings
from pipeline.mini.presenter import default_avatar
from pipeline.rife.access import RifeFacts, check_rate
from pipeline.stages import RifeRequest
from pipeline.types import CROP_SIZE, CropBatch
from serve_app.config.settings import load_config

REQUEST, CONTEXT = RifeRequest(50, "bt709"), CallContext("s", 60_000)


def replica(**rife: object) -> RifeReplica:
    return RifeReplica(RifeStageSettings(rife=RifeSettings.model_validate(rife), cache_bytes=2**20))


def grey(n: int, avatar_id: str = "a") -> CropBatch:
    return CropBatch(np.full((n, CROP_SIZE, CROP_SIZE, 3), 90, np.uint8), np.zeros(n, np.bool_), avatar_id)


def test_a_cpu_says_that_it_will_not_and_what_to_do() -> None:
    one = replica()
    facts = one.facts()
    assert not facts.interpolates and facts.device == "cpu" and "rife.allow_cpu" in facts.reason
    with pytest.raises(InvalidInputError, match="allow_cpu"):
        asyncio.run(one.pictures(REQUEST, grey(2), None, CONTEXT))
    with pytest.raises(InvalidInputError, match=r"50.*allow_cpu"):
        check_rate(50, facts)
    asyncio.run(one.check_health())


def test_without_weights_it_says_which_and_sessions_at_25_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    facts = replica(allow_cpu=True, network="4.6").facts()
    assert not facts.interpolates and facts.network == "rife/4.6" and "weights" in facts.reason


def test_the_embedded_network_makes_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    avatar = default_avatar()
    monkeypatch.setattr("pipeline.avatars.store.AvatarStore.get", lambda self, avatar_id: avatar)
    one = replica(allow_cpu=True, network="mini")
    assert one.facts() == RifeFacts(True, "", "rife/mini", "cpu")

    async def call() -> int:
        crops = grey(2, avatar.avatar_id)
        crops.crops[1] = 100
        return len(await one.pictures(REQUEST, crops, None, CONTEXT))

    assert asyncio.run(call()) == 3


def test_the_settings_reach_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEANCHOR_RIFE__ALLOW_CPU", "true")
    monkeypatch.setenv("LIVEANCHOR_STORES__AVATARS", "/shared/avatars")
    stage = load_config().stage("rife")
    assert isinstance(stage, RifeStageSettings)
    assert stage.rife.allow_cpu and stage.rife.network == "auto" and stage.stores.avatars == "/shared/avatars"
    monkeypatch.setenv("LIVEANCHOR_RIFE__NETWORK", "5.0")
    with pytest.raises(InvalidInputError, match="4.25"):
        load_config()
