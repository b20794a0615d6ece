"""What viewers see while processes die: their pictures, their voice and what was drawn for them, as it comes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from benchmarks.graph.capacity_run import VIEWERS_PER_PROCESS

LEAVE_S: Final = 8.0


@dataclass
class Seen:
    """What one viewer saw so far; moments are monotonic seconds of this machine, ascending.

    Attributes:
        session_ids: Ids of its sessions, the present one last.
        pictures_at: When pictures were complete.
        drawn_at: When its session's renderer was seen to have answered.
        voice_gaps: When the voice went away, and for how many seconds.
        told: When it was told of its pictures' quality, and what.
        inserted_ms: Silence that was put into its microphone, over all its sessions.
        lost: Whether it gave up.
    """

    session_ids: list[str] = field(default_factory=list)
    pictures_at: list[float] = field(default_factory=list)
    drawn_at: list[float] = field(default_factory=list)
    voice_gaps: list[tuple[float, float]] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)
    inserted_ms: float = 0.0
    lost: bool = False
    _before_ms: float = 0.0

    def take(self, news: dict[str, Any]) -> None:
        """Add what `benchmarks.graph.standing_clients` says of this viewer."""
        if news["session_id"] and news["session_id"] not in self.session_ids:
            self.session_ids.append(news["session_id"])
            self._before_ms = self.inserted_ms
        self.pictures_at += news["pictures_at"]
        self.drawn_at += news["drawn_at"]
        self.voice_gaps += [(at, seconds) for at, seconds in news["voice_gaps"]]
        self.told += [(at, quality) for at, quality in news["told"]]
        self.inserted_ms = self._before_ms + news["inserted_ms"]
        self.lost = news["lost"]


def longest_gap_s(moments: Sequence[float], since: float, until: float) -> float:
    """Longest time between two of a viewer's moments around a kill, the time that is still open at the end included.

    Args:
        moments: Ascending.
        since: The kill; the last moment before it begins the first gap.
        until: The end.
    """
    times = [*[at for at in moments if at < since][-1:], *(at for at in moments if since <= at <= until), until]
    return max((later - at for at, later in zip(times, times[1:], strict=False)), default=until - since)


def voice_gap_s(gaps: Sequence[tuple[float, float]], since: float, until: float) -> float:
    """Longest time without the voice that began or ended between two moments; 0 where it was never away."""
    return max((seconds for at, seconds in gaps if at + seconds >= since and at <= until), default=0.0)


@contextmanager
def watching(url: str, count: int, speech: Path) -> Iterator[Callable[[], list[Seen]]]:
    """While so many viewers speak and stand up again; gives what each saw so far.

    Args:
        url: Address of the service.
        count: Number of viewers.
        speech: Path of what each of them says again and again.
    """
    seen: list[Seen] = []
    clients = []
    for start in range(0, count, VIEWERS_PER_PROCESS):
        group = [Seen() for _ in range(min(VIEWERS_PER_PROCESS, count - start))]
        seen += group
        clients.append(_client(url, len(group), speech))
        threading.Thread(target=_follow, args=(clients[-1].stdout, group), daemon=True).start()
    try:
        yield lambda: seen
    finally:
        for client in clients:
            client.terminate()
        ends = time.monotonic() + LEAVE_S
        for client in clients:
            with suppress(subprocess.TimeoutExpired):
                client.wait(max(0.1, ends - time.monotonic()))
            client.kill()
            client.wait()


def _client(url: str, count: int, speech: Path) -> subprocess.Popen[str]:
    options = ["--url", url, "--count", str(count), "--speech", str(speech)]
    command = [sys.executable, "-m", "benchmarks.graph.standing_clients", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own module


def _follow(lines: IO[str], group: Sequence[Seen]) -> None:
    for line in lines:
        with suppress(ValueError):  # the last line of a process that was killed
            for one, news in zip(group, json.loads(line)["viewers"], strict=True):
                one.take(news)
