"""Sends messages that are due. Any number of processes may do so at once: a message is leased to one of them at a time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final

import httpx
import structlog

from deployments.video_jobs.store import Jobs
from deployments.video_jobs.webhooks import ClaimMessages, Message, MessageState, NoteAttempt, ReadSecrets
from kernels.errors import InvalidInputError, first_line
from pipeline.fetch.fetcher import Fetcher
from serve_app.http.webhooks.body import body_of
from serve_app.http.webhooks.schedule import asked_seconds, verdict
from serve_app.http.webhooks.signature import new_secret, signed_headers

FIELD: Final = "webhook_url"
LOOK_S: Final = 1.0
"""Seconds between looks for messages that are due."""
AT_ONCE: Final = 32
"""Messages that one process sends at once."""
ANSWER_S: Final = 15.0
"""Seconds within which a receiver must answer, from the look-up of its name on."""
LEASE_S: Final = 30.0
"""Seconds after which another process sends a message whose sender fell silent."""


class WebhookSender:
    """Sends the messages of one store.

    Args:
        jobs: The store.
        fetcher: Reaches addresses that strangers name.
        wall_clock: Gives seconds since the epoch, for signatures.
        chance: Draws from [0, 1), for the pauses between attempts.
        answer_s: Seconds within which a receiver must answer.
    """

    def __init__(
        self,
        jobs: Jobs,
        fetcher: Fetcher,
        wall_clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._jobs = jobs
        self._fetcher = fetcher
        self._wall_clock = wall_clock
        self._chance = chance
        self._answer_s = answer_s
        self._sending: dict[asyncio.Task[None], str] = {}
        self._log = structlog.get_logger("liveanchor.webhooks")

    async def run(self) -> None:
        """Look for messages, for as long as this process lives."""
        while True:
            [fault] = await asyncio.gather(self.look(), return_exceptions=True)
            if isinstance(fault, BaseException):  # of any kind: the next look tries again
                self._log.warning("messages_not_seen", reason=first_line(fault, named=True))
            await asyncio.sleep(LOOK_S)

    async def look(self) -> list[asyncio.Task[None]]:
        """Begin to send what is due, as far as there is room, and answer the tasks that do it.

        Raises:
            JobStoreError: The store cannot be used.
        """
        free = AT_ONCE - len(self._sending)
        in_flight = tuple(self._sending.values())
        due = await self._jobs.handle(ClaimMessages(LEASE_S, free, in_flight)) if free > 0 else ()
        begun = {asyncio.create_task(self._attempt(one), name=one.message_id): one.owner for one in due}
        self._sending |= begun
        for task in begun:
            task.add_done_callback(self._done)
        return list(begun)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._sending[task]
        if not task.cancelled() and (fault := task.exception()) is not None:  # it is due again when its lease runs out
            reason = first_line(fault, named=True)
            self._log.warning("message_not_sent", message_id=task.get_name(), reason=reason)

    async def _attempt(self, message: Message) -> None:
        valid = await self._jobs.handle(ReadSecrets(message.owner, new_secret()))
        body = body_of(message)
        now = int(self._wall_clock())
        headers = signed_headers(message.message_id, now, body, [one.text for one in valid])
        status, note, asked = await self._sent(message.url, headers, body)
        asked_s = asked_seconds(asked, self._wall_clock())
        state, again_s = verdict(message.tries, status, asked_s, self._chance())
        if state is MessageState.GIVEN_UP:
            self._log.warning("message_given_up", message_id=message.message_id, tries=message.tries, note=note)
        await self._jobs.handle(NoteAttempt(message.message_id, message.attempt, status, note, state, again_s))

    async def _sent(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, str, str]:
        """Status of the answer (0 where there is none), what went wrong, and its `Retry-After`."""
        try:
            async with (
                asyncio.timeout(self._answer_s),
                self._fetcher.open(url, FIELD, "POST", headers, body) as answer,  # its body is of no interest
            ):
                fine = answer.is_success
                return (
                    answer.status_code,
                    "" if fine else f"answered {answer.status_code}",
                    answer.headers.get("retry-after", ""),
                )
        except TimeoutError:
            return 0, f"no answer within {self._answer_s:g} s", ""
        except InvalidInputError as error:
            return 0, f"{error.code}: {error}", ""
        except httpx.HTTPError as error:
            return 0, f"no connection ({type(error).__name__})", ""
