"""What viewers miss when a process dies under them: stage replicas and session hosts are killed while everybody speaks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.graph.capacity_run import STAGES, beside, sessions_of, wait_for
from benchmarks.graph.gpu_service import stage_stats, stats_if_any, wait_until
from benchmarks.live.rig import ClientProcess, replica_pids
from kernels.errors import LiveAnchorError

LOOK_EVERY_S: Final = 0.05
BACK_S: Final = 60.0
QUIET_S: Final = 3.0
"""Seconds between two kills in which everything must be as before."""


class DrawnChunks:
    """Notes when each session's renderer answered, by the sessions' own counters.

    Args:
        sessions: Gives the numbers of all sessions, by id.
        clock: Monotonic seconds.
    """

    def __init__(self, sessions: Callable[[], Mapping[str, Mapping[str, Any]]], clock: Callable[[], float]) -> None:
        self._sessions, self._clock = sessions, clock
        self._calls: dict[str, int] = {}
        self.at: dict[str, list[float]] = {}

    def look(self) -> None:
        """Ask once; sessions that cannot be asked now are asked again the next time."""
        now = self._clock()
        for session_id, numbers in self._sessions().items():
            calls = numbers["stage_calls"].get("renderer", 0) - numbers["stage_failures"].get("renderer", 0)
            if calls > self._calls.get(session_id, 0):
                self.at.setdefault(session_id, []).append(now)
            self._calls[session_id] = calls

    def gap_s(self, since: float, until: float) -> float | None:
        """Longest time within which some session got nothing drawn; None where one got nothing at all after `since`."""
        longest = 0.0
        for moments in self.at.values():
            before = [at for at in moments if at < since][-1:] or [since]
            after = [at for at in moments if since <= at <= until]
            if not after:
                return None
            times = [*before, *after]
            longest = max(longest, *(later - at for at, later in zip(times, times[1:], strict=False)))
        return longest


@dataclass(frozen=True)
class Deaths:
    """What kills of one kind of process cost.

    Attributes:
        gap_ms: Per kill: longest time for which a viewer saw nothing new that was drawn for him.
        back_s: Per kill: seconds until another process stood in the dead one's place and answered.
        lost: Viewers that nobody served again.
    """

    gap_ms: list[float] = field(default_factory=list)
    back_s: list[float] = field(default_factory=list)
    lost: int = 0


class Survival:
    """Kills processes of a running service while sessions speak.

    Args:
        url: Address of the service.
        speech: Path of a speech file that lasts for all kills.
        sessions: Number of sessions that speak.
        kills: Number of kills of each kind.
    """

    def __init__(self, url: str, speech: Path, sessions: int, kills: int) -> None:
        self._url, self._speech, self._count, self._kills = url, speech, sessions, kills
        self._pause = threading.Event()

    def stages(self) -> dict[str, Deaths]:
        """Every stage's replica, one after the other, as often as wanted.

        Raises:
            LiveAnchorError: A replica did not come back.
        """
        found = {stage: Deaths() for stage in STAGES}
        with beside(self._url, self._count, self._speech):
            for _ in range(self._kills):
                for stage in STAGES:
                    self._kill(stage, found[stage])
        return found

    def hosts(self) -> Deaths:
        """A session host that has sessions; its viewers make new offers, as the page does."""
        seconds = 12.0 * self._kills + 10.0
        options = ("--count", str(self._count), "--seconds", f"{seconds:g}", "--speech", str(self._speech))
        client = ClientProcess(self._url, *options, module="benchmarks.graph.standing_clients")
        kills: list[float] = []
        back: list[float] = []
        try:
            wait_for(self._count, lambda: len(sessions_of(self._url)), time.monotonic, self._pause.wait)
            for _ in range(self._kills):
                self._pause.wait(2 * QUIET_S)
                hosts = replica_pids("SessionHost")
                many, victim = len(hosts), hosts[len(kills) % len(hosts)]
                kills.append(time.monotonic())
                os.kill(victim, signal.SIGKILL)
                with suppress(LiveAnchorError):  # shows as a viewer that is lost, or as nothing at all
                    back.append(wait_until(partial(_host_replaced, victim, many), BACK_S))
            report = client.report(seconds + 60.0)
        finally:
            client.process.kill()
        pictures = [viewer["pictures_at"] for viewer in report["viewers"]]
        return Deaths([1e3 * picture_gap_s(pictures, at, at + 10.0) for at in kills], back, report["lost"])

    def _kill(self, stage: str, found: Deaths) -> None:
        drawn = DrawnChunks(lambda: sessions_of(self._url), time.monotonic)
        before = [one.pid for one in stage_stats(stage)]
        self._watch(drawn, QUIET_S)
        at = time.monotonic()
        for pid in before[:1]:
            os.kill(pid, signal.SIGKILL)
        back: list[float] = []

        def answers() -> None:
            with suppress(LiveAnchorError):
                back.append(wait_until(lambda: _stands_again(stage, before), BACK_S))

        waiter = threading.Thread(target=answers)
        waiter.start()
        while waiter.is_alive():
            self._watch(drawn, 4 * LOOK_EVERY_S)
        self._watch(drawn, QUIET_S)
        gap = drawn.gap_s(at, time.monotonic())
        if not back or gap is None:
            raise LiveAnchorError(f"{stage} did not come back within {BACK_S:g} s, or nothing was drawn after it")
        found.back_s.append(back[0])
        found.gap_ms.append(1e3 * gap)

    def _watch(self, drawn: DrawnChunks, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            with suppress(httpx.HTTPError):  # a busy service is asked again
                drawn.look()
            self._pause.wait(LOOK_EVERY_S)


def picture_gap_s(pictures_at: Sequence[Sequence[float]], since: float, until: float) -> float:
    """Longest time between two pictures of one viewer around a moment; infinite where one got none after it.

    Args:
        pictures_at: Per viewer: when pictures were complete, ascending.
        since: The moment.
        until: Pictures after this moment do not count, except the first one.
    """
    longest = 0.0
    for moments in pictures_at:
        before = [at for at in moments if at < since][-1:]
        after = [at for at in moments if at >= since]
        if not before:
            continue  # it came later
        if not after:
            return float("inf")
        times = [*before, after[0], *(at for at in after[1:] if at <= until)]
        longest = max(longest, *(later - at for at, later in zip(times, times[1:], strict=False)))
    return longest


def _host_replaced(victim: int, many: int) -> bool:
    now = replica_pids("SessionHost")
    return victim not in now and len(now) >= many


def _stands_again(stage: str, before: Sequence[int]) -> bool:
    now = [one.pid for one in stats_if_any(stage)]
    return len(now) == len(before) and set(now) != set(before)
