"""How fast a voice comes in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from pipeline.types import SAMPLES_PER_FRAME

RATE_WINDOW_S: Final = 2.0


class InputRate:
    """Counts the samples of the last `RATE_WINDOW_S`.

    Args:
        seconds: Monotonic seconds.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._fed: deque[tuple[float, int]] = deque()

    @property
    def frames_per_second(self) -> float:
        """Frames of voice per second, of 640 samples each."""
        self._forget()
        return sum(count for _, count in self._fed) / SAMPLES_PER_FRAME / RATE_WINDOW_S

    def add(self, samples: int) -> None:
        """So many samples came in, counted at 16 kHz."""
        self._forget()
        self._fed.append((self._seconds(), samples))

    def _forget(self) -> None:
        since = self._seconds() - RATE_WINDOW_S
        while self._fed and self._fed[0][0] <= since:
            self._fed.popleft()
