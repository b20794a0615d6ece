"""A host's beat and its leases, with the actors of the application in this process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.serve")

from ray.exceptions import ActorDiedError, RayError

from deployments.host import live_replica
from deployments.host.live_calls import LiveOffer
from deployments.host.live_errors import NoCapacityError
from deployments.host.live_replica import LiveReplica
from deployments.host.token_pool import Lease
from kernels.errors import InvalidInputError
from pipeline.config import SessionSettings
from pipeline.live.contracts import Drive
from tests.support.fake_voice import FakeVoice

OFFER = LiveOffer("s", "v=0", None, 25, Drive.PUSH, echo=False, lease=Lease("s", "a", 1.0))


class Metric:
    """A metric that keeps nothing."""

    def __init__(self, name: str, **described: object) -> None:
        self.name = name

    def set(self, value: float) -> None:
        """Take a value."""

    def inc(self, value: float = 1.0, **tags: object) -> None:
        """Take a count."""


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> LiveReplica:
    """A host outside of Ray."""
    context = SimpleNamespace(app_name="app")
    monkeypatch.setattr(live_replica, "serve", SimpleNamespace(get_replica_context=lambda: context))
    monkeypatch.setattr(live_replica, "metrics", SimpleNamespace(Gauge=Metric, Counter=Metric))
    monkeypatch.setattr(live_replica, "own_full_name", lambda: "host")
    monkeypatch.setattr(live_replica, "BEAT_S", 0.0)
    parts: Any = None
    avatars: Any = SimpleNamespace(speaker=None)

    async def check_rate(settings: SessionSettings) -> None:
        """Every rate will do."""

    facts: Any = SimpleNamespace(check_rate=check_rate)
    settings: Any = SimpleNamespace(session=SessionSettings())
    return LiveReplica(parts, facts, avatars, FakeVoice(), settings)


@pytest.mark.parametrize(
    "trouble", [ActorDiedError(), RayError("the registry cannot read this"), NoCapacityError(1, 1, "x")]
)
def test_a_host_beats_on_whatever_the_actors_answer(
    monkeypatch: pytest.MonkeyPatch, replica: LiveReplica, trouble: Exception
) -> None:
    beats: list[str] = []

    async def beat(name: str, ids: list[str]) -> None:
        beats.append(name)
        raise trouble if len(beats) == 1 else asyncio.CancelledError

    registry = SimpleNamespace(beat=SimpleNamespace(remote=beat))
    monkeypatch.setattr(live_replica, "registry_of", lambda app: registry)
    sessions: Any = SimpleNamespace(ids=[], all_stats=lambda: [])
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(replica._beat(sessions))
    assert beats == ["host", "host"]


@pytest.mark.parametrize(
    "fault", [InvalidInputError("avatar_id", "x", "y"), NoCapacityError(1, 1, "x"), asyncio.CancelledError()]
)
def test_an_offer_that_fails_leaves_no_lease_to_renew(
    monkeypatch: pytest.MonkeyPatch, replica: LiveReplica, fault: BaseException
) -> None:
    async def open_(offer: LiveOffer) -> None:
        assert replica._leases.all() == [OFFER.lease]
        raise fault

    async def ready() -> Any:
        return SimpleNamespace(open=open_)

    async def offer() -> None:
        async for _ in replica._hold(OFFER):
            raise AssertionError("no session began")

    monkeypatch.setattr(replica, "_ready", ready)
    with pytest.raises(type(fault)):
        asyncio.run(offer())
    assert replica._leases.all() == []
