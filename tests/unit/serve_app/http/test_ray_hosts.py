"""Calls that Ray Serve does not hand to any replica: told as what they are, never as an error that nobody foresaw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.serve")

from ray.exceptions import ActorDiedError
from ray.serve._private.common import DeploymentID
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from deployments.graph.errors import NotReadyError, StageLostError, StageOverloadedError
from deployments.graph.session_cost import StageCost
from deployments.host.avatar_commands import ListAvatars, RegisterAvatar
from deployments.host.live_calls import LiveAnswer, LiveHostStats, LiveOffer
from deployments.host.live_commands import End
from deployments.host.live_errors import NoCapacityError, SessionNotFoundError
from deployments.host.stage_set import StageReport
from deployments.host.token_pool import Lease, TokenPool
from kernels.errors import LiveAnchorError
from serve_app.http.live import ray_host as ray_live_host
from serve_app.http.live.ray_host import RayLiveHost
from serve_app.http.ray_host import RayHost
from tests.support.manual_clock import ManualClock

FULL = BackPressureError(9, 8)
UNAVAILABLE = DeploymentUnavailableError(DeploymentID("SessionHost", "liveanchor"))
REFUSALS = [(FULL, StageOverloadedError), (UNAVAILABLE, NotReadyError)]


class Answer:
    """A call that fails before it reaches a replica. Ray Serve then raises the same error once more when it is cancelled."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __await__(self) -> Any:
        raise self._error
        yield

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> object:
        raise self._error

    def cancel(self) -> None:
        raise self._error


class Failing:
    """A handle whose calls all fail in one way."""

    app_name = "liveanchor"

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.calls = 0

    def options(self, **options: object) -> Failing:
        return self

    def remote(self, *args: object) -> Answer:
        self.calls += 1
        return Answer(self._error)

    def broadcast(self, method: str) -> Failing:
        return self

    async def results_async(self, **options: object) -> list[object]:
        raise self._error


class Pool:
    """The actor of the token pool, in this process."""

    def __init__(self, tokens: int = 8, gone: bool = False) -> None:
        self._pool = TokenPool(ManualClock())
        self._pool.report(StageReport("node", StageCost("renderer", 1.0, 0.0), most=tokens))
        self._gone = gone
        self.released: list[str] = []

    @property
    def acquire(self) -> Any:
        async def call(session_id: str, fps: float, avatar_id: str) -> Lease:
            if self._gone:
                raise ActorDiedError
            return self._pool.acquire(session_id, fps, avatar_id)

        return SimpleNamespace(remote=call)

    @property
    def release(self) -> Any:
        def call(session_id: str) -> None:
            self.released.append(session_id)
            self._pool.release(session_id)

        return SimpleNamespace(remote=call)


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    made = Pool()
    monkeypatch.setattr(ray_live_host, "pool_of", lambda app: made)
    return made


def test_an_offer_that_no_host_took_gives_its_tokens_back(pool: Pool) -> None:
    for number in range(20):
        offer = replace(OFFER, session_id=f"{number:032x}")
        with pytest.raises(StageOverloadedError):
            asyncio.run(RayLiveHost(Failing(FULL)).offer(offer))  # type: ignore[arg-type]
    assert len(pool.released) == 20


def test_a_client_that_goes_away_while_the_pool_is_asked_gives_its_tokens_back(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(tokens=1)
    given = asyncio.Event()

    async def acquire(session_id: str, fps: float, avatar_id: str) -> Lease:
        await pool.acquire.remote(session_id, fps, avatar_id)
        given.set()
        return await asyncio.Future()  # the answer is on its way

    async def go_away() -> None:
        slow = SimpleNamespace(acquire=SimpleNamespace(remote=acquire), release=pool.release)
        monkeypatch.setattr(ray_live_host, "pool_of", lambda app: slow)
        offer = asyncio.create_task(RayLiveHost(Failing(FULL)).offer(OFFER))  # type: ignore[arg-type]
        await given.wait()
        offer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await offer

    asyncio.run(go_away())
    assert asyncio.run(pool.acquire.remote("next", 25.0, "")).session_id == "next"


def test_the_tokens_of_a_session_whose_host_died_are_free_for_its_client_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool(tokens=1)
    monkeypatch.setattr(ray_live_host, "pool_of", lambda app: pool)
    dead = asyncio.Event()

    class Stream(Answer):
        answers = iter([LiveAnswer(OFFER.session_id, "v=0", "a", 4, 2, 25)])

        async def __anext__(self) -> object:
            for answer in self.answers:
                return answer
            await dead.wait()
            raise ActorDiedError

    handle = Failing(FULL)
    monkeypatch.setattr(handle, "remote", lambda *args: Stream(FULL))

    async def scene() -> None:
        live = RayLiveHost(handle)  # type: ignore[arg-type]
        await live.offer(OFFER)
        with pytest.raises(NoCapacityError):
            await pool.acquire.remote("again", 25.0, "")
        dead.set()
        await asyncio.gather(*live._drains)
        assert (await pool.acquire.remote("again", 25.0, "")).session_id == "again"

    asyncio.run(scene())


@pytest.mark.parametrize(("dead", "asked"), [(1, 2), (2, 3), (9, 3)])
def test_a_dead_host_that_is_asked_where_a_session_was_has_neighbours(
    monkeypatch: pytest.MonkeyPatch, dead: int, asked: int
) -> None:
    handle, gone = Failing(FULL), SessionNotFoundError("s")

    def remote(*args: object) -> Answer:
        handle.calls += 1
        return Answer(ActorDiedError() if handle.calls <= dead else gone)

    monkeypatch.setattr(handle, "remote", remote)
    with pytest.raises(StageLostError if dead > 2 else SessionNotFoundError):
        asyncio.run(RayLiveHost(handle).handle(End("s")))  # type: ignore[arg-type]
    assert handle.calls == asked


def test_where_no_token_is_left_no_host_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Pool(tokens=1)
    asyncio.run(full.acquire.remote("other", 25.0, ""))
    monkeypatch.setattr(ray_live_host, "pool_of", lambda app: full)
    hosts = Failing(FULL)
    with pytest.raises(NoCapacityError):
        asyncio.run(RayLiveHost(hosts).offer(OFFER))  # type: ignore[arg-type]
    assert hosts.calls == 0


def test_a_pool_that_starts_anew_is_no_reason_to_let_everything_in(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def pool_of(app: str) -> Pool:
        asked.append(app)
        return Pool(gone=len(asked) == 1)

    monkeypatch.setattr(ray_live_host, "pool_of", pool_of)
    live = RayLiveHost(Failing(FULL))  # type: ignore[arg-type]
    with pytest.raises(NotReadyError, match="tokens"):
        asyncio.run(live.offer(OFFER))
    with pytest.raises(StageOverloadedError):
        asyncio.run(live.offer(OFFER))  # the next one asks the pool that came back


def refused(handle: Any, call: Callable[[Any, Any], Coroutine[Any, Any, object]]) -> LiveAnchorError:
    with pytest.raises(LiveAnchorError) as raised:
        asyncio.run(call(RayHost(handle), RayLiveHost(handle)))
    return raised.value


CALLS: list[Callable[[Any, Any], Coroutine[Any, Any, object]]] = [
    lambda files, live: files.handle(ListAvatars()),
    lambda files, live: files.handle(RegisterAvatar(b"x", "name")),
    lambda files, live: live.offer(OFFER),
    lambda files, live: live.live_stats(),
    lambda files, live: live.handle(End("a" * 32)),
]
OFFER = LiveOffer("a" * 32, "sdp", None, 25, "mic", True)


@pytest.mark.parametrize(("raised", "told"), REFUSALS)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_no_replica_took(raised: Exception, told: type[LiveAnchorError], call: Any) -> None:
    assert type(refused(Failing(raised), call)) is told


@pytest.mark.parametrize("call", CALLS)
def test_a_host_that_died(call: Any) -> None:
    assert isinstance(refused(Failing(ActorDiedError()), call), StageLostError)


@pytest.mark.parametrize("raised", [TimeoutError(), UNAVAILABLE])
def test_counters_of_hosts_that_do_not_answer_are_left_out(raised: Exception) -> None:
    host = RayHost(Failing(raised))  # type: ignore[arg-type]
    assert asyncio.run(host.host_stats()) == []
    with pytest.raises(NotReadyError):
        asyncio.run(host.progress("a-job-1"))  # the one that does not answer may be the one that works on it


@pytest.mark.parametrize("raised", [FULL, UNAVAILABLE, ActorDiedError()])
def test_counters_of_stages_are_left_out_where_no_host_answers(raised: Exception) -> None:
    assert asyncio.run(RayHost(Failing(raised)).stage_stats()) == []  # type: ignore[arg-type]


class Hosts:
    """A handle: the registry knows hosts by name, Ray Serve those that take new sessions."""

    app_name = "liveanchor"

    def __init__(self, registered: list[str], serving: list[object] | Exception) -> None:
        self._registered = registered
        self._serving = serving

    def options(self, method_name: str) -> Hosts:
        assert method_name == "live_replicas"
        return self

    async def remote(self) -> list[str]:
        return self._registered

    def broadcast(self, method: str) -> Hosts:
        return self

    async def results_async(self, **options: object) -> list[object]:
        if isinstance(self._serving, Exception):
            raise self._serving
        return self._serving


DRAINS = LiveHostStats("old", 8, sessions=[{"session_id": "a" * 32}])
SERVES, NEW = LiveHostStats("busy", 8, sessions=[{}, {}]), LiveHostStats("new", 8)


@pytest.mark.parametrize(
    ("serving", "capacity"),
    [
        ([SERVES, NEW], {"old": 1, "busy": 8, "new": 8}),
        ([NEW, ActorDiedError()], {"old": 1, "busy": 2, "new": 8}),
        (TimeoutError(), {"old": 8, "busy": 8}),
    ],
)
def test_a_host_that_drains_has_room_for_what_it_holds(
    monkeypatch: pytest.MonkeyPatch, serving: Any, capacity: dict[str, int]
) -> None:
    class Direct:
        def __init__(self, place: str, app: str) -> None:
            self._place = place

        async def unary(self, method: str) -> LiveHostStats:
            return {"old": DRAINS, "busy": SERVES}[self._place]

    monkeypatch.setattr(ray_live_host, "DirectCall", Direct)
    host = RayLiveHost(Hosts(["old", "busy"], serving))  # type: ignore[arg-type]
    found = asyncio.run(host.live_stats())
    assert {one.replica_id: one.capacity for one in found} == capacity and len(found) == len(capacity)
