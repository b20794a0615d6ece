"""A clock that tests move by hand."""

from __future__ import annotations


class ManualClock:
    """Monotonic seconds that stand still until `now` is set."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time, seconds."""
        return self.now
