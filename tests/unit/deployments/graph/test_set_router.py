"""The router between Ray Serve and `deployments.graph.affinity`: whose calls it orders, and by what."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.serve")

from ray.serve._private.common import DeploymentHandleSource, DeploymentID, ReplicaID, RequestMetadata
from ray.serve.request_router import PendingRequest

from deployments.graph.affinity import preference
from deployments.graph.calls import CallContext
from deployments.graph.set_router import SetRouter
from pipeline.stages import RenderRequest
from pipeline.types import MotionChunk

NAMES = ["r0", "r1", "r2", "r3"]


def request(avatar_id: str) -> RenderRequest:
    return RenderRequest(avatar_id, MotionChunk(np.zeros((1, 265), np.float32), 0), None, 25, "bt709")


def ranks(pending: Any, loads: dict[str, int] | None = None) -> list[list[str]]:
    """Names of replicas in the order in which they would be tried."""
    replicas: list[Any] = [
        SimpleNamespace(replica_id=SimpleNamespace(unique_id=name), node_id=f"node-{name}") for name in NAMES
    ]
    queue: Any = SimpleNamespace(get=lambda replica_id: (loads or {}).get(replica_id.unique_id))
    router: Any = SimpleNamespace(replica_queue_len_cache=queue)
    found = asyncio.run(SetRouter.choose_replicas(router, replicas, pending))
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


def test_a_session_stays_on_its_set_and_any_other_helps_out() -> None:
    context = CallContext("s", 1000.0, set_id="node-r2")
    render = ranks(call(request("a" * 32), context))
    assert render[0] == ["r2"] and sorted(sum(render[1:], [])) == ["r0", "r1", "r3"]
    assert len(render) == 4, "the others follow in the order of the avatar's homes"
    assert ranks(call(np.zeros(4, np.float32), 0, context)) == [["r2"], ["r0", "r1", "r3"]]


def test_a_set_that_is_gone_leaves_the_choice_to_the_avatar() -> None:
    context = CallContext("s", 1000.0, set_id="node-dead")
    assert ranks(call(request("a" * 32), context)) == ranks(call(request("a" * 32)))
    assert ranks(call("rows", context)) == [NAMES]


class Replica:
    """A running replica whose queue length is told when the test says so."""

    max_ongoing_requests = 8
    node_id = "node"

    def __init__(self, name: str) -> None:
        self.replica_id = ReplicaID(name, DeploymentID("Renderer", "liveanchor"))
        self.tells = asyncio.Event()

    async def get_queue_len(self, *, deadline_s: float) -> int:
        await self.tells.wait()
        return 0


def pending_call(avatar_id: str, serves: str) -> PendingRequest:
    """A render call, made while the host serves the request `serves`."""
    metadata = RequestMetadata(request_id=serves, internal_request_id=serves, call_method="render")
    return PendingRequest(args=[request(avatar_id)], kwargs={}, metadata=metadata)


async def routed(calls: list[tuple[str, str]], order: list[str]) -> list[str]:
    """Names of the replicas that calls (avatar, request served) get where replicas tell their queue lengths in an order."""
    router = SetRouter(DeploymentID("Renderer", "liveanchor"), DeploymentHandleSource.REPLICA)
    router.queue_len_response_deadline_s = 60.0
    replicas: Any = {name: Replica(name) for name in NAMES[:2]}
    router.update_replicas(list(replicas.values()))
    waiting = [asyncio.create_task(router._choose_replica_for_request(pending_call(*one))) for one in calls]
    for name in order:
        for _ in range(20):
            await asyncio.sleep(0)
        replicas[name].tells.set()
    async with asyncio.timeout(30):
        return [one.replica_id.unique_id for one in await asyncio.gather(*waiting)]


def home_of(avatar_id: str) -> str:
    return NAMES[:2][preference(avatar_id, NAMES[:2], [0, 0])[0]]


def avatar_at(home: str) -> str:
    return next(name for name in (f"{number:032x}" for number in range(99)) if home_of(name) == home)


@pytest.mark.parametrize("order", [["r0", "r1"], ["r1", "r0"]])
def test_a_replica_goes_to_the_call_that_it_was_chosen_for(order: list[str]) -> None:
    calls = [(avatar_at("r0"), "session-a"), (avatar_at("r1"), "session-b")]
    assert asyncio.run(routed(calls, order)) == ["r0", "r1"], "the older call must not get what was chosen for another"


@pytest.mark.parametrize("count", [2, 4, 9])
def test_calls_of_one_session_all_get_a_replica(count: int) -> None:
    """They carry the id of the one request that the session is."""
    assert asyncio.run(routed([(avatar_at("r1"), "session-a")] * count, ["r0", "r1"])) == ["r1"] * count
