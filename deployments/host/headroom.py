"""Admission by measured headroom: a session is let in only where all sessions, it included, would still be in time."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from deployments.host.live_errors import NoCapacityError

WINDOW_S: Final = 10.0
MIN_SAMPLES: Final = 8
"""Number of chunks in the window below which a percentile says nothing."""
PERCENTILE: Final = 0.9
CROWDED: Final = 0.5
"""Share from which on sessions should ask the stages less often."""
ROOMY: Final = 0.35
"""Share below which they may ask as often as they like again."""


class Headroom:
    """Decides whether one replica lets one more session in.

    A chunk's *share* is the time that its pictures took, from the request to their return, over the time for which they are shown.
    Above 1 a session cannot keep up. Shares grow with the number of sessions that speak at once, because they wait for each
    other; so the share that one more session would lead to is taken as `share * (n + 1) / n`, n = sessions that spoke within the
    window. Idle sessions make no chunks and cost no stage anything: only `max_sessions` bounds them. Where sessions of other hosts
    share the stages, one more is less than `1 / n` of the load: the pool of tokens, which knows them all, says how much
    (`Lease.growth`), and the smaller factor holds.

    A session whose client does not come keeps its place only while no other session needs it: once all places are taken, the one
    that has waited longest gives way, after `grace_s`. A bound on places without clients would not help: one client could fill it
    with fewer offers and keep all others out, and offers that come at once would not fill the places that there are.

    Args:
        max_sessions: Largest number of sessions.
        max_share: Largest share that one more session may be expected to lead to.
        clock: Gives monotonic seconds.
        grace_s: Seconds that a client may take to come even where all places are taken.
    """

    def __init__(
        self,
        max_sessions: int,
        max_share: float,
        clock: Callable[[], float] = time.monotonic,
        grace_s: float = math.inf,
    ) -> None:
        self._max_sessions = max_sessions
        self._max_share = max_share
        self._clock = clock
        self._grace_s = grace_s
        self._chunks: deque[tuple[float, str, float]] = deque()
        self._held: set[str] = set()
        self._waiting: dict[str, float] = {}
        self._crowded = False
        self.refused = 0

    def chunk_done(self, session_id: str, took_s: float, lasts_s: float) -> None:
        """Note that the pictures of a chunk came back.

        Args:
            session_id: Id of the session that they belong to.
            took_s: Seconds from the request to their return.
            lasts_s: Seconds for which they are shown.
        """
        self._chunks.append((self._clock(), session_id, took_s / lasts_s))
        share = self.share()
        self._crowded = share >= CROWDED or (self._crowded and share >= ROOMY)

    def admit(self, session_id: str, last_try: bool = True, growth: float = math.inf) -> None:
        """Take a place.

        Args:
            session_id: Id of the session that takes it.
            last_try: Whether a refusal is counted; a caller that asks other hosts too passes False.
            growth: Factor by which the session raises the load of its stages; infinite where nobody knows.

        Raises:
            NoCapacityError: There is no room.
        """
        capacity = self.capacity(growth)
        if len(self._held) >= capacity:
            self.refused += last_try
            reason = (
                "as many as one host takes"
                if capacity == self._max_sessions
                else f"pictures already take {self.share():.2f} of the time for which they are shown"
            )
            raise NoCapacityError(len(self._held), capacity, reason)
        self._held.add(session_id)
        self._waiting[session_id] = self._clock()

    def client_came(self, session_id: str) -> None:
        """Note that a session's client has come: from now on its place is its own."""
        self._waiting.pop(session_id, None)

    def give_way(self) -> str | None:
        """Name the session that should end so that one more can be let in; each is named once.

        Returns:
            The session's id; None where there is room, or no session has to give way.
        """
        if len(self._held) < self._max_sessions or not self.in_time():
            return None
        late = [(since, who) for who, since in self._waiting.items() if self._clock() - since >= self._grace_s]
        if not late:
            return None
        _, session_id = min(late)
        del self._waiting[session_id]
        return session_id

    def release(self, session_id: str) -> None:
        """Give the place back; a second time does nothing. What its pictures took is forgotten: it says nothing of the others."""
        self._held.discard(session_id)
        self._waiting.pop(session_id, None)
        self._chunks = deque(one for one in self._chunks if one[1] != session_id)

    @property
    def active(self) -> int:
        """Number of places that are taken."""
        return len(self._held)

    def crowded(self) -> bool:
        """Whether pictures take so much of their time that sessions should ask the stages less often."""
        return self._crowded and bool(self._chunks) and self._clock() - self._chunks[-1][0] <= WINDOW_S

    def share(self) -> float:
        """90th percentile of the chunk shares in the window; 0 while there are too few chunks to tell."""
        self._trim()
        if len(self._chunks) < MIN_SAMPLES:
            return 0.0
        shares = sorted(share for _, _, share in self._chunks)
        return shares[math.ceil(PERCENTILE * len(shares)) - 1]

    def capacity(self, growth: float = math.inf) -> int:
        """Number of sessions that fit now, including the sessions that are here; `growth` as for `admit`."""
        return self._max_sessions if self.in_time(growth) else min(len(self._held), self._max_sessions)

    def in_time(self, growth: float = math.inf) -> bool:
        """Whether one more session would leave all of them in time; `growth` as for `admit`."""
        share = self.share()
        speaking = len({who for _, who, _ in self._chunks})
        return not speaking or share * min((speaking + 1) / speaking, growth) <= self._max_share

    def _trim(self) -> None:
        oldest = self._clock() - WINDOW_S
        while self._chunks and self._chunks[0][0] < oldest:
            self._chunks.popleft()
