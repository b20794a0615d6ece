"""Temporary presenters on one `SessionHost` replica: kept while something here uses them, removed after long disuse."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import structlog

from deployments.host.avatars import Avatars
from deployments.host.counted import counted
from kernels.errors import InvalidInputError, first_line
from pipeline.avatars.manifest import BundleError
from pipeline.avatars.store import AvatarSummary

BEAT_S: Final = 45.0
"""Seconds between two notes that a presenter is still in use; must be less than `pipeline.avatars.quota.IN_USE_S`."""
TIDY_S: Final = 600.0
"""Seconds between two looks for presenters that have expired."""


class AvatarsInUse:
    """Notes times of use in a store that all replicas share, so that no replica needs to know what the others do.

    Args:
        store: The store that all replicas share.
        ttl_s: Seconds without use after which a temporary presenter goes; 0: never.
        clock: Gives monotonic seconds.
    """

    def __init__(self, store: Avatars, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._ttl_s = ttl_s or math.inf
        self._clock = clock
        self._using: Counter[str] = Counter()
        self._tidy_at = -math.inf
        self._notes_at = -math.inf
        self._log = structlog.get_logger("liveanchor.avatars")

    def using(self, avatar_id: str | None) -> AbstractContextManager[None]:
        """Let `beat` keep a presenter from expiring as long as this is open; None is the default one, which stays anyway."""
        return counted(self._using, avatar_id) if avatar_id else nullcontext()

    async def run(self, tidy_notes: Callable[[], object]) -> None:
        """Beat for as long as this process lives.

        Args:
            tidy_notes: Removes what is noted about presenters that are gone.
        """
        while True:
            await self.beat(tidy_notes)
            await asyncio.sleep(BEAT_S)

    async def beat(self, tidy_notes: Callable[[], object] = lambda: None) -> None:
        """Note what is in use; from time to time remove what has expired. Failures are logged and tried again."""
        for avatar_id in tuple(self._using):
            await self._tend(self._store.touch, avatar_id)
        if self._clock() >= self._tidy_at:
            await self._tend(self.tidy)
        if self._clock() >= self._notes_at:
            self._notes_at = self._clock() + TIDY_S
            await self._tend(tidy_notes)

    def tidy(self) -> None:
        """Remove the temporary presenters that have expired.

        Raises:
            LiveAnchorError: The store does not answer.
        """
        self._tidy_at = self._clock() + TIDY_S
        if removed := self._store.expire(self._ttl_s):
            self._log.info("avatars_expired", removed=removed)

    def listed(self) -> list[AvatarSummary]:
        """List all presenters after the expired ones are removed; an expired one that cannot be removed is still listed.

        Raises:
            LiveAnchorError: The store does not answer.
        """
        self.try_to_tidy()
        return self._store.list()

    def try_to_tidy(self) -> None:
        """Remove the temporary presenters that have expired; one that cannot be removed is logged.

        Raises:
            LiveAnchorError: The store does not answer.
        """
        try:
            self.tidy()
        except BundleError as error:
            self._not_tended(error)

    async def _tend(self, do: Callable[..., object], *args: str) -> None:
        """In a thread. One presenter that gives trouble must not cost the others their beat, nor one bad moment all later beats."""
        try:
            await asyncio.to_thread(do, *args)
        except InvalidInputError:
            return  # it was removed meanwhile
        except Exception as error:  # noqa: BLE001  # drivers of stores raise what they like
            self._not_tended(error)

    def _not_tended(self, error: Exception) -> None:
        self._log.warning("avatars_not_tended", reason=first_line(error, named=True))
