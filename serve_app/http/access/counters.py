"""Counts requests per caller in windows of a minute, and says in header fields how many are left.

Fields: draft-ietf-httpapi-ratelimit-headers-11, sections 3 and 4.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from limits import RateLimitItemPerMinute
from limits.aio.strategies import MovingWindowRateLimiter
from limits.errors import StorageError
from limits.storage import storage_from_string

from kernels.errors import first_line
from serve_app.http.problems.errors import QuotaExceededError

WINDOW_S: Final = 60
_MEMORY: Final = "async+memory://"


@dataclass(frozen=True)
class Standing:
    """Where a caller stands with one limit.

    Attributes:
        policy: Name of the limit.
        quota: Requests in a window.
        left: Requests that are left now.
        reset_s: Seconds until all of them are there again.
    """

    policy: str
    quota: int
    left: int
    reset_s: int


class Counters:
    """Limits of requests, by name.

    A place of counters that does not answer lets requests through: it is no lock, and its loss must not end the service.

    Args:
        quotas: Requests per minute by name of the limit; limits of 0 count nothing.
        uri: Where the counts are; empty for this process.
        wall_clock: Gives seconds since the epoch, as the counters tell time.
    """

    def __init__(self, quotas: dict[str, int], uri: str = "", wall_clock: Callable[[], float] = time.time) -> None:
        options: dict[str, Any] = {"implementation": "redispy"} if uri else {}
        storage: Any = storage_from_string(uri or _MEMORY, **options)
        self._limiter = MovingWindowRateLimiter(storage)
        self._items = {name: RateLimitItemPerMinute(quota) for name, quota in quotas.items() if quota}
        self._wall_clock = wall_clock
        self._log = structlog.get_logger("liveanchor.http")

    async def count(self, policy: str, client: str) -> Standing | None:
        """Count one request.

        Args:
            policy: Name of the limit.
            client: Whose request it is.

        Returns:
            Where the client stands now; None where nothing is counted.

        Raises:
            QuotaExceededError: It was one too many.
        """
        item = self._items.get(policy)
        if item is None:
            return None
        try:
            let_in = await self._limiter.hit(item, policy, client)
            stats = await self._limiter.get_window_stats(item, policy, client)
        except (StorageError, OSError) as error:
            self._log.warning("counters_lost", reason=first_line(error, named=True))
            return None
        standing = Standing(
            policy, item.amount, max(0, stats.remaining), max(1, math.ceil(stats.reset_time - self._wall_clock()))
        )
        if not let_in:
            raise QuotaExceededError(policy, standing.quota, f"requests in {WINDOW_S} s", standing.reset_s)
        return standing


def rate_limit_fields(standings: Iterable[Standing]) -> dict[str, str]:
    """Header fields that say where a caller stands; none where nothing is counted."""
    found = list(standings)
    if not found:
        return {}
    return {
        "RateLimit-Policy": ", ".join(f'"{one.policy}";q={one.quota};w={WINDOW_S}' for one in found),
        "RateLimit": ", ".join(f'"{one.policy}";r={one.left};t={one.reset_s}' for one in found),
    }
