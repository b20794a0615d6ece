"""The router between Ray Serve and `deployments.graph.affinity`: whose calls it orders, and by what."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.serve")

from deployments.graph.affinity import preference
from deployments.graph.avatar_router import AvatarRouter
from pipeline.stages import RenderRequest
from pipeline.types import MotionChunk

NAMES = ["r0", "r1", "r2", "r3"]


def request(avatar_id: str) -> RenderRequest:
    return RenderRequest(avatar_id, MotionChunk(np.zeros((1, 265), np.float32), 0), None, 25, "bt709")


def ranks(pending: Any, loads: dict[str, int] | None = None) -> list[list[str]]:
    """Names of replicas in the order in which they would be tried."""
    replicas: list[Any] = [SimpleNamespace(replica_id=SimpleNamespace(unique_id=name)) for name in NAMES]
    queue: Any = SimpleNamespace(get=lambda replica_id: (loads or {}).get(replica_id.unique_id))
    router: Any = SimpleNamespace(replica_queue_len_cache=queue)
    found = asyncio.run(AvatarRouter.choose_replicas(router, replicas, pending))
    return [[one.replica_id.unique_id for one in rank] for rank in found]


def call(*args: object) -> Any:
    return SimpleNamespace(args=list(args), routing_context=SimpleNamespace(should_backoff=False))


@pytest.mark.parametrize("avatar_id", ["a" * 32, "b" * 32, "c" * 32])
def test_a_render_call_tries_the_homes_of_its_avatar_in_turn(avatar_id: str) -> None:
    pending = call(request(avatar_id), object())
    expected = [[NAMES[index]] for index in preference(avatar_id, NAMES, [0] * 4)]
    assert ranks(pending) == expected
    assert pending.routing_context.should_backoff, "else a full home would be asked without a pause"
    busy = expected[0][0]
    assert ranks(call(request(avatar_id)), {busy: 50})[-1] == [busy]


@pytest.mark.parametrize("pending", [None, call(), call("facts"), call(SimpleNamespace(avatar_id=7))])
def test_other_calls_go_to_anybody(pending: Any) -> None:
    assert ranks(pending) == [NAMES]
