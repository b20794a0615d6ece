"""How much one caller may have at once: jobs, videos that wait, live sessions, presenters."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from deployments.host.counted import counted
from pipeline.avatars.quota import AvatarQuota
from serve_app.access.caller import NOBODY, Caller
from serve_app.access.owned_ids import belongs_to
from serve_app.access.settings import QuotaSettings
from serve_app.http.problems.errors import QuotaExceededError

JOBS: Final = "jobs"
SESSIONS: Final = "live_sessions"
VIDEOS: Final = "videos_waiting"
_WAIT_S: Final = 5
_NO_BOUND: Final = 2**62


class Quotas:
    """Bounds what each key has in work. What runs is asked for where it runs; only what is on its way there is counted here.

    Args:
        settings: The bounds.
    """

    def __init__(self, settings: QuotaSettings) -> None:
        self._most = {JOBS: settings.jobs_at_once, SESSIONS: settings.sessions_at_once}
        self._videos_waiting = settings.videos_waiting
        self._coming: dict[str, Counter[str]] = {name: Counter() for name in self._most}
        self._avatars = (settings.max_own_avatars, settings.max_own_avatars_bytes)

    def avatars(self, caller: Caller) -> AvatarQuota | None:
        """Bounds on the presenters of a caller; None for no bounds."""
        if caller.owner == NOBODY or not any(self._avatars):
            return None
        most, most_bytes = self._avatars
        return AvatarQuota(most or _NO_BOUND, most_bytes or _NO_BOUND)

    def videos_waiting(self, caller: Caller) -> int:
        """Most videos of a caller that may wait; 0 for any number."""
        return 0 if caller.owner == NOBODY else self._videos_waiting

    @asynccontextmanager
    async def one_more(
        self, kind: str, caller: Caller, running: Callable[[], Awaitable[list[str]]]
    ) -> AsyncGenerator[None, None]:
        """Take a place for one more job or session of a caller, as long as this is open.

        Args:
            kind: `JOBS` or `SESSIONS`.
            caller: Whose it is.
            running: Gives the ids of all that run now, of all callers.

        Raises:
            QuotaExceededError: The caller has as many as it may.
        """
        most, coming = self._most[kind], self._coming[kind]
        if not most or caller.owner == NOBODY:
            yield
            return
        with counted(coming, caller.owner):
            there = {one for one in await running() if belongs_to(one, caller.owner)}
            mine = coming[caller.owner]
            # a job counts here for as long as it runs, a session only until it runs
            if (max(mine, len(there) + 1) if kind == JOBS else mine + len(there)) > most:
                raise QuotaExceededError(kind, most, "at once", _WAIT_S)
            yield
