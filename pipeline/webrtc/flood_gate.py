"""How much of something a client may send: no session is worth a core of a machine that others share."""

from __future__ import annotations

from collections.abc import Callable


class FloodGate:
    """Lets through `rate` per second on average and `burst` at once.

    Args:
        rate: Per second.
        burst: At once, after a while without any.
        clock: Monotonic seconds.

    Attributes:
        refused: What was not let through.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left = burst
        self._at = clock()
        self.refused = 0

    def lets(self, count: int = 1) -> bool:
        """Whether `count` more pass; all or none."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if count > self._left:
            self.refused += count
            return False
        self._left -= count
        return True
