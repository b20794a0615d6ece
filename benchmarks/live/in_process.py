"""`serve_app.http.live.host.LiveHost` over the real `LiveSessions`, in the server's own process, without Ray."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from deployments.config import SessionHostSettings
from deployments.host.command import Answer
from deployments.host.live_calls import LiveAnswer, LiveHostStats, LiveOffer, NumberedEvent
from deployments.host.live_commands import LiveCommand
from deployments.host.live_sessions import LiveSessions
from deployments.host.token_pool import PoolStats
from pipeline.stages import Stages
from pipeline.types import Avatar
from pipeline.voices.voice import Voice


class InProcessLive:
    """Serves live sessions of one process. The sessions are made by the first call, on the server's loop.

    Args:
        settings: Settings of the session host.
        stages: Stages that all sessions share.
        presenter: Finds an avatar by its id, the default one for None.
        voice: Speaks text; that of the settings where None.
    """

    def __init__(
        self,
        settings: SessionHostSettings,
        stages: Stages,
        presenter: Callable[[str | None], Avatar],
        voice: Voice | None = None,
    ) -> None:
        self._settings = settings
        self._stages = stages
        self._presenter = presenter
        self._voice = voice
        self._sessions: LiveSessions | None = None

    @property
    def sessions(self) -> LiveSessions:
        """The sessions themselves."""
        if self._sessions is None:
            self._sessions = LiveSessions(self._settings, self._same, self._presenter, self._stages, self._voice)
        return self._sessions

    async def offer(self, offer: LiveOffer) -> LiveAnswer:
        """Implement `LiveHost.offer`."""
        return await self.sessions.open(offer)

    async def tokens(self) -> PoolStats:
        """No set of stages needs tokens."""
        return PoolStats()

    async def live_stats(self) -> list[LiveHostStats]:
        """Implement `LiveHost.live_stats`."""
        one = self.sessions
        counts = (dict(one.ended), one.headroom.refused, tuple(one.first_frames_ms()))
        return [LiveHostStats("r1", one.headroom.capacity(), one.all_stats(), *counts)]

    async def handle(self, command: LiveCommand[Answer]) -> Answer:
        """Implement `LiveHost.handle`."""
        return await self.sessions.handle(command)

    async def events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """Implement `LiveHost.events`."""
        async for event in self.sessions.events(session_id, after):
            yield event

    async def _same(self, session_id: str) -> Stages:
        return self._stages
