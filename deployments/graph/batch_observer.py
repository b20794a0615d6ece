"""What a batcher tells of its work, for metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class BatchObserver(Protocol):
    """Hears what the batcher does, for metrics."""

    def queue_changed(self, queued: int) -> None:
        """The number of chunks that wait."""
        ...

    def batch_done(self, waits_s: Sequence[float], run_s: float) -> None:
        """A batch ran: how long each of its chunks had waited, and how long the model worked on it.

        The work of a batch begins with its start or, where batches overlap, with the end of the one before: so the sum over all
        batches is the time for which the model was busy.
        """
        ...

    def dropped(self, reason: str) -> None:
        """A chunk got no result: `expired`, `cancelled`, `stale`, `overloaded` or `failed`."""
        ...


class SilentObserver:
    """Hears nothing."""

    def queue_changed(self, queued: int) -> None:
        """Nothing."""

    def batch_done(self, waits_s: Sequence[float], run_s: float) -> None:
        """Nothing."""

    def dropped(self, reason: str) -> None:
        """Nothing."""
