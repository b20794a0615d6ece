"""A quantile of the last values of a series, kept in order so that a new value costs no sorting."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque


class SlidingQuantile:
    """Keeps the newest values of a series in the order of their size.

    Args:
        most: Number of values kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._newest: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        """Number of values kept."""
        return len(self._newest)

    def add(self, value: float) -> None:
        """Add a finite value; the oldest one goes where there are too many."""
        if len(self._newest) == self._most:
            del self._sorted[bisect_left(self._sorted, self._newest.popleft())]
        self._newest.append(value)
        insort(self._sorted, value)

    def at(self, share: float) -> float:
        """The value that a share of the kept ones, 0..1, does not exceed; between two of them linearly, as `numpy.percentile`.

        Raises:
            IndexError: No value was added.
        """
        place = share * (len(self._sorted) - 1)
        below = int(place)
        low, high = self._sorted[below], self._sorted[min(below + 1, len(self._sorted) - 1)]
        return low + (high - low) * (place - below)
