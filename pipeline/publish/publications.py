"""The ingests that one session is published to."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from pipeline.live.contracts import LiveClock
from pipeline.publish.connection import Connect
from pipeline.publish.errors import TooManyPublicationsError
from pipeline.publish.publication import Publication
from pipeline.publish.publication_stats import PublicationState, PublicationStats
from pipeline.publish.settings import PublishSettings
from pipeline.publish.target import PublishTarget, check_target
from pipeline.webrtc.errors import PeerClosedError

SETTLE_S: Final = 8.0
"""Longest wait for the first attempt before a caller is answered."""


class Publications:
    """Begins, lists and ends a session's publications. Belongs to one event loop.

    Args:
        settings: What is allowed.
        connect: Makes connections.
        clock: Paces attempts.
        on_trouble: Told about connections that end or cannot be made.
    """

    def __init__(
        self, settings: PublishSettings, connect: Connect, clock: LiveClock, on_trouble: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._clock = clock
        self._on_trouble = on_trouble
        self._all: dict[str, Publication] = {}
        self._closed = False

    def begin(self, target: PublishTarget) -> Publication:
        """Begin to publish, and return at once.

        Raises:
            TooManyPublicationsError: There are as many as may be; those that failed do not count.
            PeerClosedError: The session is ending.
            UrlRefusedError: As `check_target`.
            InvalidInputError: As `check_target`.
        """
        check_target(target, self._settings)
        if self._closed:
            raise PeerClosedError("the session is ending")
        active = sum(one.state is not PublicationState.FAILED for one in self._all.values())
        if active >= self._settings.max_publications:
            raise TooManyPublicationsError(self._settings.max_publications)
        publication = Publication(secrets.token_hex(8), target, self._connect, self._clock, self._on_trouble)
        self._all[publication.publication_id] = publication
        return publication

    async def add(self, target: PublishTarget) -> PublicationStats:
        """Begin to publish, and wait for the first attempt, though not for long.

        Raises:
            IngestRefusedError: The ingest says no; nothing is left behind.
            LiveAnchorError: As `begin`.
        """
        publication = self.begin(target)
        try:
            async with asyncio.timeout(SETTLE_S):
                await publication.settled()
        except TimeoutError:
            return publication.stats()
        if publication.refusal is not None:
            await self.remove(publication.publication_id)
            raise publication.refusal
        return publication.stats()

    async def remove(self, publication_id: str) -> bool:
        """End a publication; False where there is none of that id."""
        publication = self._all.pop(publication_id, None)
        if publication is not None:
            await publication.close()
        return publication is not None

    def stats(self) -> list[PublicationStats]:
        """What is known about each, in the order in which they began."""
        return [one.stats() for one in self._all.values()]

    async def close(self) -> None:
        """End them all, and let no other begin; harmless when repeated."""
        self._closed = True
        await asyncio.gather(*(self.remove(one) for one in list(self._all)))
