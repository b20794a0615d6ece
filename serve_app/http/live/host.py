"""The protocol through which the HTTP application uses live sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from deployments.host.command import Answer
from deployments.host.live_calls import LiveAnswer, LiveHostStats, LiveOffer, NumberedEvent
from deployments.host.live_commands import LiveCommand
from deployments.host.token_pool import PoolStats


class LiveHost(Protocol):
    """Reaches live sessions, wherever in the cluster they are."""

    async def offer(self, offer: LiveOffer) -> LiveAnswer:
        """Begin a session. Raises NoCapacityError, InvalidInputError (`sdp`, `avatar_id`), or another LiveAnchorError."""
        ...

    async def handle(self, command: LiveCommand[Answer]) -> Answer:
        """Do what a command asks of the session that it names. Raises LiveAnchorError, as the command says."""
        ...

    def events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """Follow a session's events from number `after + 1` on, to its end; events that are not kept any more are left out.

        Raises SessionNotFoundError, SessionEndedError or SessionLostError.
        """
        ...

    async def live_stats(self) -> list[LiveHostStats]:
        """Describe the live sessions of every host."""
        ...

    async def tokens(self) -> PoolStats:
        """Tell the tokens of the sets of stages; there is no set where sessions need no tokens."""
        ...
