"""When a publication tries again, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kernels.errors import LiveAnchorError
from pipeline.publish.errors import IngestRefusedError, IngestUnreachableError
from pipeline.publish.publication import LONGEST_WAIT_S, STEADY_S, Publication
from pipeline.publish.publication_stats import PublicationState
from pipeline.publish.target import PublishTarget
from pipeline.webrtc.peer_stats import PeerStats
from tests.support.live import FakeClock, settle

REFUSED = IngestRefusedError("token", "one that the ingest answers with 401", "the right one")


class Attempt:
    """A connection that fails at once, or stands until it is dropped."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure
        self.dropped = asyncio.Event()
        self.closed = 0

    async def open(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def over(self) -> None:
        await self.dropped.wait()

    async def close(self) -> None:
        self.closed += 1

    def stats(self) -> PeerStats:
        return PeerStats("connected", *[0.0] * 3, 0.0, 0.0, None, 0, 0, None, 0, 0, 0, None, None, None, None)  # type: ignore[arg-type]


class Tried:
    """A publication over attempts that a test names one after the other; the last one is repeated."""

    def __init__(self, *failures: Exception | None, chance: Callable[[], float] = lambda: 0.5) -> None:
        self.clock = FakeClock()
        self.times: list[float] = []
        self.attempts: list[Attempt] = []
        self.troubles: list[str] = []
        self._failures = list(failures)
        self._began = self.clock.now()
        target = PublishTarget("https://ingest.example/secret", "key")
        self.one = Publication("p1", target, self._connect, self.clock, self.troubles.append, chance)

    def _connect(self, target: PublishTarget) -> Attempt:
        failure = self._failures.pop(0) if len(self._failures) > 1 else self._failures[0]
        self.times.append(round(self.clock.now() - self._began, 3))
        self.attempts.append(Attempt(failure))
        return self.attempts[-1]


def test_waits_double_up_to_a_bound() -> None:
    async def body() -> None:
        tried = Tried(IngestUnreachableError("away"))
        await tried.clock.advance(150)
        assert tried.times == [0, 1, 3, 7, 15, 31, 61, 91, 121], f"the longest is {LONGEST_WAIT_S}"
        assert all(one.closed == 1 for one in tried.attempts) and len(tried.troubles) == 9
        await tried.one.close()

    asyncio.run(body())


def test_waits_are_spread() -> None:
    async def body() -> None:
        for chance, waits in ((0.0, [0, 0.75, 2.25]), (1.0, [0, 1.25, 3.75])):
            tried = Tried(IngestUnreachableError("away"), chance=lambda chance=chance: chance)  # type: ignore[misc]
            await tried.clock.advance(4)
            assert tried.times[:3] == waits
            await tried.one.close()

    asyncio.run(body())


def test_the_ingest_may_ask_for_more() -> None:
    async def body() -> None:
        tried = Tried(IngestUnreachableError("busy", 20.0), None)
        await tried.clock.advance(19.9)
        assert tried.times == [0] and tried.one.stats().state is PublicationState.WAITING
        await tried.clock.advance(0.2)
        assert tried.times == [0, 20] and tried.one.stats().state is PublicationState.LIVE
        await tried.one.close()
        assert tried.attempts[-1].closed == 1

    asyncio.run(body())


def test_a_connection_that_lasted_begins_the_waits_anew() -> None:
    async def body() -> None:
        tried = Tried(IngestUnreachableError("away"), IngestUnreachableError("away"), None)
        await tried.clock.advance(3)
        assert tried.times == [0, 1, 3]
        for lasts, wait in ((STEADY_S - 1, 4.0), (STEADY_S, 1.0)):
            await tried.clock.advance(lasts)
            tried.attempts[-1].dropped.set()
            await settle()
            dropped = tried.clock.now()
            await tried.clock.advance(wait)
            assert tried.clock.now() - dropped == wait and tried.one.stats().state is PublicationState.LIVE
        assert [round(b - a, 3) for a, b in zip(tried.times, tried.times[1:], strict=False)][-2:] == [13.0, 11.0]
        await tried.one.close()

    asyncio.run(body())


def test_a_refusal_is_final_only_before_the_first_success() -> None:
    async def body() -> None:
        refused = Tried(REFUSED)
        await refused.one.settled()
        await refused.clock.advance(60)
        assert refused.times == [0] and refused.one.stats().state is PublicationState.FAILED
        assert refused.one.refusal is REFUSED and refused.attempts[0].closed == 1
        await refused.one.close()

        later = Tried(None, REFUSED, None)
        await later.one.settled()
        later.attempts[0].dropped.set()
        await later.clock.advance(1)
        assert later.one.stats().state is PublicationState.WAITING and "401" in later.one.stats().error
        await later.clock.advance(2)
        assert later.one.stats().state is PublicationState.LIVE and later.one.refusal is None
        await later.one.close()

    asyncio.run(body())


def test_a_fault_of_ours_ends_it_and_says_so() -> None:
    async def body() -> None:
        for fault in (ZeroDivisionError("secret"), LiveAnchorError("secret")):
            tried = Tried(fault)
            await tried.one.settled()
            stats = tried.one.stats()
            assert stats.state is PublicationState.FAILED and "secret" not in stats.error and stats.peer is None
            assert tried.attempts[0].closed == 1
            await tried.one.close()

    asyncio.run(body())


def test_closing_ends_an_attempt_that_is_under_way() -> None:
    async def body() -> None:
        tried = Tried(None)
        await tried.one.settled()
        await tried.one.close()
        await tried.one.close()
        assert tried.attempts[0].closed == 1

    asyncio.run(body())
