"""A command that ends by itself before the machine it runs on is taken away."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from benchmarks.core.process_memory import descendants
from kernels.errors import LiveAnchorError

RESERVE_S: Final = 20.0
"""Seconds that the end of a cluster may take."""
FORCED_EXIT: Final = 3


class OutOfTimeError(LiveAnchorError):
    """The command's time is over, or too short for what would come next."""

    code = "out_of_time"


class TimeBudget:
    """Says how much of a command's time is left for measuring.

    Args:
        seconds: Whole time of the command, from now on; None for as long as it takes.
        clock: Monotonic seconds.
    """

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends = math.inf if seconds is None else clock() + seconds - RESERVE_S

    def left_s(self) -> float:
        """Seconds that are left; what a tidy end takes is not in them."""
        return self._ends - self._clock()

    def need(self, seconds: float, what: str) -> None:
        """Raise OutOfTimeError unless so many seconds are left."""
        if (left := self.left_s()) < seconds:
            raise OutOfTimeError(f"{what} takes {seconds:.0f} s, {max(left, 0.0):.0f} s are left")


@contextmanager
def ended_by_force(seconds: float | None) -> Iterator[None]:
    """End this process and all that it started after so many seconds, whatever hangs; what was written by then stays.

    Args:
        seconds: None lets the block take as long as it does.
    """
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, _end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end() -> None:
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(FORCED_EXIT)
