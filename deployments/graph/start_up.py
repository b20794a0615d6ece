"""How long a replica took to start, and what took the time: one line of log when it is ready to serve."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

READY: Final = "replica_ready"
"""Name of the line."""
_STAT: Final = Path("/proc/self/stat")
_log = structlog.get_logger(__name__)


class StartUp:
    """Takes the time of the phases of a start. Make it first of all in a replica's constructor.

    Args:
        name: Name of the stage, or of the host.
        age_s: Gives the seconds since this process began; what passed by now was its start and its imports.
        clock: Monotonic seconds.
        wall: Seconds since 1970, for the moment at which the process began.
    """

    def __init__(
        self,
        name: str,
        age_s: Callable[[], float] = lambda: process_age_s(),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        age = age_s()
        self._name, self._clock = name, clock
        self._began_at = wall() - age
        self._last = clock()
        self._phases = {"imports_s": age}

    def done(self, phase: str) -> None:
        """Note that a phase is over, which began when the one before it ended."""
        now = self._clock()
        self._phases[f"{phase}_s"] = now - self._last
        self._last = now

    def ready(self) -> None:
        """Write the line: when the process began, and seconds of each phase."""
        phases = {name: round(seconds, 2) for name, seconds in self._phases.items()}
        _log.info(
            READY, part=self._name, began_at=round(self._began_at, 2), **phases, all_s=round(sum(phases.values()), 2)
        )


def process_age_s(stat: Path = _STAT) -> float:
    """Seconds since this process began, by the kernel's count (Linux); 0 where it does not tell."""
    try:
        began_ticks = int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began_ticks / os.sysconf("SC_CLK_TCK")
