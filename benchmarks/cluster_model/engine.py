"""Simulated time, a GPU that processes share, and a stage replica before it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

ACTIVE_S: Final = 1.0
GATHER_FROM: Final = 4
_EPS: Final = 1e-9


class Events:
    """Runs simulated events in the order of their times, which are in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Let something happen; of two at the same time the one that was asked for first comes first."""
        heapq.heappush(self._heap, (max(when, self.now), self._count, what))
        self._count += 1

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen after a number of seconds."""
        self.at(self.now + seconds, what)

    def run(self, until: float) -> None:
        """Run everything up to a time."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, what = heapq.heappop(self._heap)
            what()
        self.now = until


class Gpu:
    """Work of several processes takes turns in slices so short that it runs side by side, each at its share.

    Args:
        events: Time.
        switching: Share that is left where more than one process has work.
    """

    def __init__(self, events: Events, switching: float) -> None:
        self._events = events
        self._switching = switching
        self._left: dict[int, tuple[float, Callable[[], None]]] = {}
        self._since = 0.0
        self._version = 0
        self.busy_s = 0.0

    def work(self, process: int, seconds: float, done: Callable[[], None]) -> None:
        """Run a process's work, of so many seconds if it were alone."""
        self._advance()
        self._left[process] = (seconds, done)
        self._plan()

    def _rate(self) -> float:
        count = len(self._left)
        return 0.0 if not count else 1.0 if count == 1 else self._switching / count

    def _advance(self) -> None:
        passed = self._events.now - self._since
        self._since = self._events.now
        if self._left:
            self.busy_s += passed
            rate = self._rate()
            self._left = {process: (left - passed * rate, done) for process, (left, done) in self._left.items()}

    def _plan(self) -> None:
        self._version += 1
        if not self._left:
            return
        version = self._version
        soonest = min(left for left, _ in self._left.values())
        self._events.after(max(soonest, 0.0) / self._rate(), lambda: self._finish(version))

    def _finish(self, version: int) -> None:
        if version != self._version:
            return  # something came meanwhile, and another time was set
        self._advance()
        over = [process for process, (left, _) in self._left.items() if left <= _EPS]
        finished = [self._left.pop(process)[1] for process in over]
        self._plan()
        for done in finished:
            done()


@dataclass(eq=False)
class Chunk:
    """A session's call to a stage.

    Attributes:
        session: Number of the session.
        frames: Number of frames that the call makes.
        due: Second at which its first picture is shown.
        done: Called when it is made.
        clip: Whether it is a piece of a file, whose motion comes in long windows.
    """

    session: int
    frames: int
    due: float
    done: Callable[[], None]
    clip: bool = False


class Replica:
    """A stage: a queue by due time, one batch at a time, at most one chunk of a session in it.

    Args:
        events: Events of the simulation, which give its time.
        gpu: The GPU on which it runs.
        name: Unique number of its process.
        cost_ms: GPU time of a batch.
        batch: Most chunks of a batch.
        host_ms: Time after a batch, per frame, in which its GPU work stands still.
        gather_s: How long a batch may wait for other sessions that are active, from `GATHER_FROM` of them on.
    """

    def __init__(
        self,
        events: Events,
        gpu: Gpu,
        name: int,
        cost_ms: Callable[[list[Chunk]], float],
        batch: int,
        host_ms: float = 0.0,
        gather_s: float = 0.0,
    ) -> None:
        self._events, self._gpu, self._name = events, gpu, name
        self._cost_ms, self._batch, self._host_ms = cost_ms, batch, host_ms
        self._gather_s = gather_s
        self._queue: list[tuple[float, Chunk]] = []
        self._active: dict[int, float] = {}
        self._running = False
        self.in_flight = 0
        self.batches = 0
        self.chunks = 0

    def submit(self, chunk: Chunk) -> None:
        """Queue a call."""
        self.in_flight += 1
        self._queue.append((self._events.now, chunk))
        self._active[chunk.session] = self._events.now
        if not self._running:
            self._next()

    def _next(self) -> None:
        self._running = False
        firsts: dict[int, Chunk] = {}
        for _, chunk in sorted(self._queue, key=lambda one: one[1].due):
            firsts.setdefault(chunk.session, chunk)
        if not firsts or self._waits_for_others(len(firsts)):
            return
        self._running = True
        batch = list(firsts.values())[: self._batch]
        self._queue = [one for one in self._queue if one[1] not in batch]
        self.batches += 1
        self.chunks += len(batch)
        self._gpu.work(self._name, self._cost_ms(batch) / 1000, lambda: self._handed_out(batch))

    def _waits_for_others(self, here: int) -> bool:
        """Whether the batch had better wait; it is looked at again when a call comes, or when the wait is over."""
        now = self._events.now
        active = sum(now - seen <= ACTIVE_S for seen in self._active.values())
        until = self._queue[0][0] + self._gather_s
        if self._gather_s <= 0 or active < GATHER_FROM or here >= min(active, self._batch) or now >= until - _EPS:
            return False
        self._events.at(until, lambda: None if self._running else self._next())
        return True

    def _handed_out(self, batch: list[Chunk]) -> None:
        host_s = self._host_ms * sum(chunk.frames for chunk in batch) / 1000

        def finish() -> None:
            self.in_flight -= len(batch)
            for chunk in batch:
                chunk.done()
            self._next()

        if host_s > 0:
            self._events.after(host_s, finish)
        else:
            finish()
