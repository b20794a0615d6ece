"""A session's way to one ingest for as long as the session lasts: connected, lost, connected again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import structlog

from kernels.errors import InvalidInputError
from pipeline.live.contracts import LiveClock
from pipeline.publish.connection import Connect, Connection
from pipeline.publish.errors import IngestUnreachableError
from pipeline.publish.publication_stats import PublicationState, PublicationStats
from pipeline.publish.target import PublishTarget

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 30.0
STEADY_S: Final = 10.0
"""A connection that lasted so long worked: the next wait is the first one again."""
SPREAD: Final = 0.25
"""Waits differ by up to this share, so that sessions that an ingest lost at once do not come back at once."""


class Publication:
    """Keeps a session connected to an ingest until it is closed.

    What the ingest refuses before it ever took the session is final. All else is tried again, after 1, 2, 4 ... 30 s, or later
    where the ingest says so.

    Args:
        publication_id: Id within the session.
        target: The ingest.
        connect: Makes a connection to it.
        clock: Paces the attempts.
        on_trouble: Told why a connection ended or could not be made.
        chance: Gives a number in 0..1, for the spread of waits.
    """

    def __init__(
        self,
        publication_id: str,
        target: PublishTarget,
        connect: Connect,
        clock: LiveClock,
        on_trouble: Callable[[str], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.publication_id = publication_id
        self.state = PublicationState.CONNECTING
        self.refusal: InvalidInputError | None = None
        self._target = target
        self._connect = connect
        self._clock = clock
        self._on_trouble = on_trouble
        self._chance = chance
        self._attempts = 0
        self._error = ""
        self._connection: Connection | None = None
        self._live_at: float | None = None
        self._was_live = False
        self._failures = 0
        self._settled = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"publication-{publication_id}")
        self._task.add_done_callback(self._over)

    async def settled(self) -> None:
        """Wait until the first attempt has come to an end: live, refused, or to be repeated."""
        await self._settled.wait()

    def stats(self) -> PublicationStats:
        """What is known now."""
        live_at = self._live_at
        return PublicationStats(
            self.publication_id,
            self._target.shown,
            self.state,
            self._attempts,
            self._error,
            None if live_at is None else self._clock.now() - live_at,
            None if self._connection is None else self._connection.stats(),
        )

    async def close(self) -> None:
        """End it and free everything; harmless when repeated."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            asked_s = await self._attempt()
            self._settled.set()
            if self.state is PublicationState.FAILED:
                return
            await self._clock.sleep_until(self._clock.now() + max(self._wait_s(), asked_s))

    async def _attempt(self) -> float:
        """Connect once and stay as long as it lasts; answers the seconds that the ingest asks to wait."""
        self.state = PublicationState.CONNECTING
        self._attempts += 1
        connection = self._connection = self._connect(self._target)
        try:
            await connection.open()
            self.state, self._was_live, self._live_at = PublicationState.LIVE, True, self._clock.now()
            self._settled.set()
            await connection.over()
            self._ended("the connection was lost")
        except IngestUnreachableError as error:
            self._ended(str(error))
            return error.retry_after_s
        except InvalidInputError as error:
            self._ended(str(error))
            if not self._was_live:
                self.refusal, self.state = error, PublicationState.FAILED
        finally:
            self._connection = self._live_at = None
            await connection.close()
        return 0.0

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.state, self._error = PublicationState.FAILED, "a fault of this service"
            structlog.get_logger("liveanchor.publish").error("publication_failed", exc_info=fault)
        self._settled.set()

    def _ended(self, reason: str) -> None:
        lasted_s = 0.0 if self._live_at is None else self._clock.now() - self._live_at
        self._failures = 1 if lasted_s >= STEADY_S else self._failures + 1
        self.state, self._error = PublicationState.WAITING, reason
        structlog.get_logger("liveanchor.publish").warning(
            "publication_interrupted", target=self._target.shown, reason=reason, attempts=self._attempts
        )
        self._on_trouble(f"publishing to {self._target.shown}: {reason}")

    def _wait_s(self) -> float:
        wait_s = min(FIRST_WAIT_S * 2.0 ** min(self._failures - 1, 16), LONGEST_WAIT_S)
        return wait_s * (1 + SPREAD * (2 * self._chance() - 1))
