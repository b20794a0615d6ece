"""Where each live session is: session id -> replica. A look-up only; media and speech never pass through it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from deployments.host.live_errors import SessionEndedError, SessionLostError, SessionNotFoundError

BEAT_S: Final = 2.0
"""Seconds between two calls in which a replica names its sessions."""
LOST_AFTER_S: Final = 10.0
"""Seconds of silence after which a replica counts as dead."""
MAX_TOMBSTONES: Final = 10_000
TOMBSTONE_S: Final = 24 * 3600.0


@dataclass
class _Replica:
    sessions: set[str]
    beat_at: float


class SessionRegistry:
    """Knows which replica holds each session. It is not thread-safe.

    When it starts anew and empty, the replicas' next beats fill it again.

    Args:
        clock: Gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._replicas: dict[str, _Replica] = {}
        self._place: dict[str, str] = {}
        self._ended: OrderedDict[str, tuple[str | None, float]] = OrderedDict()

    def add(self, session_id: str, replica: str) -> None:
        """Note that a session began on a replica."""
        self._sweep()
        self._replica(replica).sessions.add(session_id)
        self._place[session_id] = replica

    def end(self, session_id: str, reason: str) -> None:
        """Note that a session ended in good order; `where` tells the reason from now on."""
        self._forget(session_id, reason)

    def beat(self, replica: str, sessions: Sequence[str]) -> None:
        """Note that a replica lives and holds exactly these sessions; sessions that were thought lost are found again."""
        known = self._replica(replica)
        for gone in known.sessions - set(sessions):
            self._forget(gone, None)
        for session_id in sessions:
            reason, _ = self._ended.get(session_id, (None, 0.0))
            if reason is None:  # one that ended in good order is only being freed
                self._ended.pop(session_id, None)
                self.add(session_id, replica)

    def leave(self, replica: str) -> list[str]:
        """Forget a replica that is silent or did not answer a call; its sessions are lost, and returned."""
        found = self._replicas.pop(replica, None)
        lost = sorted(found.sessions) if found else []
        for session_id in lost:
            self._forget(session_id, None)
        return lost

    def where(self, session_id: str) -> str:
        """Return the full name of the replica that holds a session.

        Raises:
            SessionEndedError: The session ended; the error says why.
            SessionLostError: The session's replica died.
            SessionNotFoundError: No session has had this id lately.
        """
        self._sweep()
        if session_id in self._place:
            return self._place[session_id]
        if session_id in self._ended:
            reason, _ = self._ended[session_id]
            raise SessionLostError(session_id) if reason is None else SessionEndedError(session_id, reason)
        raise SessionNotFoundError(session_id)

    def replicas(self) -> list[str]:
        """Full names of all replicas that live, draining ones too."""
        self._sweep()
        return list(self._replicas)

    def _replica(self, name: str) -> _Replica:
        found = self._replicas.setdefault(name, _Replica(set(), 0.0))
        found.beat_at = self._clock()
        return found

    def _forget(self, session_id: str, reason: str | None) -> None:
        replica = self._place.pop(session_id, None)
        if replica in self._replicas:
            self._replicas[replica].sessions.discard(session_id)
        known, _ = self._ended.get(session_id, (None, 0.0))
        if known is None:
            self._ended[session_id] = (reason, self._clock())
            self._ended.move_to_end(session_id)
        while len(self._ended) > MAX_TOMBSTONES:
            self._ended.popitem(last=False)

    def _sweep(self) -> None:
        now = self._clock()
        for name in [name for name, one in self._replicas.items() if now - one.beat_at > LOST_AFTER_S]:
            self.leave(name)
        while self._ended and now - next(iter(self._ended.values()))[1] > TOMBSTONE_S:
            self._ended.popitem(last=False)
