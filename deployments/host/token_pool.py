"""Admission for the whole application: sessions take tokens of sets, in one turn, before anything of them exists.

Every set of stages (one replica of each on one GPU) has tokens: how many sessions can speak at once and still be in time. An
offer takes its tokens here or is refused at once, so any number of offers in one second gets exactly what there is. The pool
keeps leases: a host renews those of its sessions with each beat, and what a dead host held is free again after `LEASE_S`. A pool
that starts anew is empty and learns everything from the next beats.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from deployments.host.live_errors import NoCapacityError

LEASE_S: Final = 10.0
"""A lease that its host does not renew for so long ends; hosts renew every 2 s."""
SET_LOST_S: Final = 10.0
"""A set that does not report for so long counts as gone."""
CLOSE: Final = 1.0
"""Sets within so many free tokens of the freest are equal; then the avatar decides."""
WARM: Final = 2.0
"""A set that has the avatar prepared wins although another has up to so many more free tokens."""
SLOW_WAIT_MS: Final = 80.0
"""Chunks that wait longer than this for their batch (95th percentile) make a set slow."""
SLOW_FOR_S: Final = 5.0
MOVE_NEEDS: Final = 2.0
"""A session moves only where another set has at least so many free tokens."""


@dataclass(frozen=True)
class SetReport:
    """What a set says about itself.

    Attributes:
        set_id: Name of the set, the id of the Ray node that its GPU belongs to.
        tokens: Sessions at 25 frames/s that it can serve while all of them speak.
        wait_ms: 95th percentile of the time that chunks waited for their batch lately.
        avatars: Ids of the avatars that it has prepared.
        draining: Whether it takes no new session.
    """

    set_id: str
    tokens: float
    wait_ms: float = 0.0
    avatars: frozenset[str] = frozenset()
    draining: bool = False


@dataclass(frozen=True)
class Lease:
    """A session's tokens.

    Attributes:
        session_id: Whose.
        set_id: Set that serves it.
        weight: Tokens.
        avatar_id: Its avatar; empty for the default one.
    """

    session_id: str
    set_id: str
    weight: float
    avatar_id: str = ""


@dataclass
class _Set:
    report: SetReport
    seen_at: float
    slow_since: float | None = None


@dataclass
class _Held:
    lease: Lease
    until: float


@dataclass(frozen=True)
class PoolStats:
    """The pool at one moment.

    Attributes:
        tokens: Tokens per set.
        used: Tokens taken per set.
        refused: Offers that found none since the pool started.
        leases: Sessions that hold tokens.
    """

    tokens: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    leases: int = 0


class TokenPool:
    """The tokens of all sets. Not thread-safe.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at = clock()
        self._sets: dict[str, _Set] = {}
        self._dead: set[str] = set()
        self._held: dict[str, _Held] = {}
        self._refused = 0

    def report(self, report: SetReport) -> None:
        """Take in what a set says about itself; it counts as alive for `SET_LOST_S` more."""
        now = self._clock()
        known = self._sets.get(report.set_id)
        since = known.slow_since if known else None
        slow = report.wait_ms > SLOW_WAIT_MS
        self._dead.discard(report.set_id)
        self._sets[report.set_id] = _Set(report, now, (now if since is None else since) if slow else None)

    def gone(self, set_id: str) -> None:
        """A set was found dead: it takes no session until it reports again. Its sessions keep their leases until they move."""
        self._sets.pop(set_id, None)
        self._dead.add(set_id)

    def acquire(self, session_id: str, weight: float, avatar_id: str = "") -> Lease:
        """Take tokens for a session, on the set where it should run.

        Args:
            session_id: A session that holds none; one that holds tokens keeps its lease.
            weight: Tokens that it needs.
            avatar_id: Breaks ties between sets that are about equally free.

        Raises:
            NoCapacityError: No set has that many free tokens.
        """
        self._sweep()
        if (held := self._held.get(session_id)) is not None:
            return held.lease
        chosen = self._choose(weight, avatar_id, without="")
        if chosen is None:
            self._refused += 1
            used, tokens = sum(self._used().values()), sum(one.report.tokens for one in self._sets.values())
            raise NoCapacityError(math.ceil(used), math.floor(tokens), "every GPU is taken by sessions that may speak")
        return self._hold(Lease(session_id, chosen, weight, avatar_id))

    def renew(self, leases: Iterable[Lease]) -> list[Lease]:
        """A host names the leases of its sessions; the ones that this pool does not know are taken in, above capacity too.

        Returns:
            The same sessions' leases as they are from now on: a session whose set is gone, drains, or has been slow for some
            seconds is moved where another set has room.
        """
        self._sweep()
        now = self._clock()
        current = []
        for lease in leases:
            held = self._held.setdefault(lease.session_id, _Held(lease, now))
            held.until = now + LEASE_S
            if self._should_move(held.lease):
                self._move(held)
            current.append(held.lease)
        return current

    def release(self, session_id: str) -> None:
        """Give a session's tokens back; a second time does nothing."""
        self._held.pop(session_id, None)

    def free(self) -> float:
        """Free tokens of all sets together."""
        self._sweep()
        used = self._used()
        return sum(max(0.0, one.report.tokens - used.get(name, 0.0)) for name, one in self._sets.items())

    def stats(self) -> PoolStats:
        """The pool as it is now."""
        self._sweep()
        used = self._used()
        tokens = {name: one.report.tokens for name, one in self._sets.items()}
        return PoolStats(tokens, {name: used.get(name, 0.0) for name in tokens}, self._refused, len(self._held))

    def _hold(self, lease: Lease) -> Lease:
        self._held[lease.session_id] = _Held(lease, self._clock() + LEASE_S)
        return lease

    def _choose(self, weight: float, avatar_id: str, without: str) -> str | None:
        """The set with the most free tokens; the avatar decides among those that are about as free."""
        used = self._used()
        free = {
            name: one.report.tokens - used.get(name, 0.0)
            for name, one in self._sets.items()
            if name != without and not one.report.draining
        }
        free = {name: left for name, left in free.items() if left >= weight}
        if not free:
            return None
        most = max(free.values())
        warm = [name for name in free if avatar_id in self._sets[name].report.avatars and free[name] >= most - WARM]
        if avatar_id and warm:
            return max(warm, key=lambda name: (free[name], _rank(avatar_id, name)))
        close = (
            [name for name in free if free[name] >= most - CLOSE] if avatar_id else [n for n in free if free[n] == most]
        )
        return max(close, key=lambda name: _rank(avatar_id, name))

    def _should_move(self, lease: Lease) -> bool:
        home = self._sets.get(lease.set_id)
        if home is None:  # a pool that has just begun has not heard of every set yet
            return self._clock() - self._began_at > SET_LOST_S or lease.set_id in self._dead
        if home.report.draining:
            return True
        return home.slow_since is not None and self._clock() - home.slow_since >= SLOW_FOR_S

    def _move(self, held: _Held) -> None:
        """To another set with room; one whose set is only slow leaves it for much room alone, and one session at a time."""
        lease = held.lease
        home = self._sets.get(lease.set_id)
        slow_only = home is not None and not home.report.draining
        needed = max(MOVE_NEEDS, lease.weight) if slow_only else lease.weight
        chosen = self._choose(needed, lease.avatar_id, without=lease.set_id)
        if chosen is None:
            return
        held.lease = Lease(lease.session_id, chosen, lease.weight, lease.avatar_id)
        if slow_only and home is not None:
            home.slow_since = self._clock()  # it is judged anew without this session

    def _used(self) -> dict[str, float]:
        used: dict[str, float] = {}
        for held in self._held.values():
            used[held.lease.set_id] = used.get(held.lease.set_id, 0.0) + held.lease.weight
        return used

    def _sweep(self) -> None:
        now = self._clock()
        for name in [name for name, one in self._sets.items() if now - one.seen_at > SET_LOST_S]:
            del self._sets[name]
        for session_id in [session_id for session_id, held in self._held.items() if held.until < now]:
            del self._held[session_id]


def _rank(avatar_id: str, set_id: str) -> bytes:
    """Order of sets for an avatar, the same for every caller (highest random weight)."""
    return hashlib.blake2b(f"{avatar_id}|{set_id}".encode(), digest_size=8).digest()
