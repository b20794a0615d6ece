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
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from deployments.graph.errors import NotReadyError
from deployments.host.headroom import WINDOW_S
from deployments.host.live_errors import NoCapacityError
from deployments.host.stage_set import SET_LOST_S, StageReport, StageSet

LEASE_S: Final = 10.0
"""Seconds after which a lease ends that its host does not renew; hosts renew every 2 s."""
CLOSE: Final = 1.0
"""Free tokens by which a set may lie behind the freest one and still count as equal; then the avatar decides."""
WARM: Final = 2.0
"""Free tokens by which a set that has the avatar prepared may lie behind the freest one and still win."""
SLOW_FOR_S: Final = 5.0
MOVE_NEEDS: Final = 2.0
"""Free tokens that another set must have for a session to move there from a slow one."""


@dataclass(frozen=True)
class Lease:
    """A session's tokens.

    Attributes:
        session_id: Id of the session.
        set_id: Name of the set that serves it.
        weight: Number of tokens that it holds.
        fps: Frames per second that its viewers get.
        avatar_id: Id of its avatar; empty for the default one.
        crowded: Whether most of the set's tokens are taken.
        growth: Factor by which this session raises the load of its set above that of the last `WINDOW_S`, at least 1; infinite
            where the set has no bound that could vouch for it.
    """

    session_id: str
    set_id: str
    weight: float
    fps: float = 25.0
    avatar_id: str = ""
    crowded: bool = field(default=False, compare=False)
    growth: float = field(default=math.inf, compare=False)


@dataclass
class _Held:
    lease: Lease
    until: float
    served: bool = False
    """Whether a host renewed it: what an offer that found no host held was no load."""


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

    @property
    def free(self) -> float:
        """Number of tokens that are left; infinite where no set has reported any."""
        if not self.tokens:
            return math.inf
        return sum(max(0.0, there - self.used.get(name, 0.0)) for name, there in self.tokens.items())


class TokenPool:
    """Gives the tokens of all sets to sessions. It is not thread-safe.

    Args:
        clock: Gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at = clock()
        self._sets: dict[str, StageSet] = {}
        self._drawing: dict[str, StageSet] = {}
        self._held: dict[str, _Held] = {}
        self._left: deque[tuple[float, str]] = deque()
        self._refused = 0

    def report(self, report: StageReport) -> None:
        """Take in what a stage replica says about itself; it counts as alive for `SET_LOST_S` more."""
        self._sets.setdefault(report.set_id, StageSet()).take(report, self._clock())

    def acquire(self, session_id: str, fps: float, avatar_id: str = "") -> Lease:
        """Take tokens for a session, on the set where it should run.

        Args:
            session_id: A session that holds none; one that holds tokens keeps its lease.
            fps: Frames per second that its viewers get; more than 25 cost more than one token.
            avatar_id: Breaks ties between sets that are about equally free.

        Raises:
            NoCapacityError: No set has that many free tokens.
            NotReadyError: No set is known, as while its stages start.
        """
        self._sweep()
        if (held := self._held.get(session_id)) is not None:
            return held.lease
        if not self._drawing:
            raise NotReadyError("no set of stages has said what it can serve")
        chosen = self._choose(fps, avatar_id)
        if chosen is None:
            self._refused += 1
            used, there = sum(self._used().values()), sum(one.tokens for one in self._drawing.values())
            raise NoCapacityError(math.ceil(used), math.floor(there), "every GPU is taken by sessions that may speak")
        weighs = self._drawing[chosen].weight(fps)
        lease = Lease(session_id, chosen, weighs, fps, avatar_id, growth=self._growth(chosen))
        self._comes_for_one_that_left(chosen)
        self._held[session_id] = _Held(lease, self._clock() + LEASE_S)
        return lease

    def renew(self, leases: Iterable[Lease]) -> list[Lease]:
        """Renew the leases that a host holds; leases that this pool does not know are taken in, even above capacity.

        Returns:
            The same sessions' leases as they are from now on, with whether their sets are crowded. A session whose set is gone, or
            has been slow for some seconds, is moved where another set has room.
        """
        self._sweep()
        now = self._clock()
        current = []
        for lease in leases:
            held = self._held.setdefault(lease.session_id, _Held(lease, now))
            held.until, held.served = now + LEASE_S, True
            if self._should_move(held.lease):
                self._move(held)
            current.append(held)
        used = self._used()
        crowded = {name: one.is_crowded(used.get(name, 0.0)) for name, one in self._drawing.items()}
        for held in current:
            held.lease = replace(held.lease, crowded=crowded.get(held.lease.set_id, False))
        return [held.lease for held in current]

    def release(self, session_id: str) -> None:
        """Give a session's tokens back; a second time does nothing."""
        held = self._held.pop(session_id, None)
        if held is not None and held.served:
            self._left.append((self._clock(), held.lease.set_id))

    def stats(self) -> PoolStats:
        """The pool as it is now."""
        self._sweep()
        used = self._used()
        there = {name: one.tokens for name, one in self._drawing.items()}
        return PoolStats(there, {name: used.get(name, 0.0) for name in there}, self._refused, len(self._held))

    def _choose(self, fps: float, avatar_id: str, without: str = "", at_least: float = 0.0) -> str | None:
        """The set with the most free tokens; the avatar decides among those that are about as free."""
        used = self._used()
        free = {
            name: one.tokens - used.get(name, 0.0)
            for name, one in self._drawing.items()
            if name != without and one.tokens - used.get(name, 0.0) >= max(one.weight(fps), at_least)
        }
        if not free:
            return None
        most = max(free.values())
        slack = 0.0
        if avatar_id:
            warm = {
                name for name in free if avatar_id in self._drawing[name].renderer.avatars and free[name] >= most - WARM
            }
            if warm:
                return max(warm, key=lambda name: (free[name], _rank(avatar_id, name)))
            slack = CLOSE
        return max((name for name in free if free[name] >= most - slack), key=lambda name: _rank(avatar_id, name))

    def _growth(self, set_id: str) -> float:
        """Sessions of a set with one more, over most that it served lately: those that return after a host's death add nothing."""
        if math.isinf(self._drawing[set_id].tokens):
            return math.inf
        there = sum(held.lease.set_id == set_id for held in self._held.values())
        lately = there + sum(name == set_id for _, name in self._left)
        return max(1.0, (there + 1) / max(1, lately))

    def _comes_for_one_that_left(self, set_id: str) -> None:
        """Let each session that left vouch for one that comes, no more."""
        if (left := next((one for one in self._left if one[1] == set_id), None)) is not None:
            self._left.remove(left)

    def _should_move(self, lease: Lease) -> bool:
        home = self._drawing.get(lease.set_id)
        if home is None:  # a pool that has just begun has not heard of every set yet
            return self._clock() - self._began_at > SET_LOST_S
        return home.slow_since is not None and self._clock() - home.slow_since >= SLOW_FOR_S

    def _move(self, held: _Held) -> None:
        """To another set with room; one whose set is only slow leaves it for much room alone, and one session at a time."""
        lease = held.lease
        home = self._drawing.get(lease.set_id)
        at_least = 0.0 if home is None else MOVE_NEEDS
        chosen = self._choose(lease.fps, lease.avatar_id, without=lease.set_id, at_least=at_least)
        if chosen is None:
            return
        held.lease = replace(lease, set_id=chosen, weight=self._drawing[chosen].weight(lease.fps))
        if home is not None:
            home.slow_since = self._clock()  # it is judged anew without this session

    def _used(self) -> dict[str, float]:
        used: dict[str, float] = {}
        for held in self._held.values():
            used[held.lease.set_id] = used.get(held.lease.set_id, 0.0) + held.lease.weight
        return used

    def _sweep(self) -> None:
        now = self._clock()
        for one in self._sets.values():
            one.forget_silent(now)
        self._drawing = {name: one for name, one in self._sets.items() if one.draws}
        for session_id in [session_id for session_id, held in self._held.items() if held.until < now]:
            self.release(session_id)
        while self._left and now - self._left[0][0] > WINDOW_S:
            self._left.popleft()


def _rank(avatar_id: str, set_id: str) -> bytes:
    """Order of sets for an avatar, the same for every caller (highest random weight)."""
    return hashlib.blake2b(f"{avatar_id}|{set_id}".encode(), digest_size=8).digest()
