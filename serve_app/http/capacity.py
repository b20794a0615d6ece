"""Bounds of one ingress process: jobs at once, and bytes of uploads held in memory at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from serve_app.http.problems.errors import BusyError


class JobGate:
    """Lets so many jobs in and refuses the next one.

    Args:
        limit: Jobs at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.active = 0

    def check(self) -> None:
        """Find out whether there is a place now, without taking it.

        Raises:
            BusyError: All places are taken.
        """
        if self.active >= self._limit:
            raise BusyError(f"{self.active} jobs in work, the most that it takes")

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Take a job's place for as long as the block runs.

        Raises:
            BusyError: All places are taken.
        """
        self.check()
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1


class Hold:
    """Bytes that one request holds.

    Args:
        budget: The budget that the bytes come from.
    """

    def __init__(self, budget: UploadBudget) -> None:
        self._budget = budget
        self.held = 0

    def charge(self, count: int) -> None:
        """Account for bytes before they are kept.

        Raises:
            BusyError: All requests together would hold too much.
        """
        if self._budget.held + count > self._budget.limit:
            raise BusyError("as many uploads in memory as it takes")
        self._budget.held += count
        self.held += count


class UploadBudget:
    """Bytes that all requests together may hold.

    Args:
        limit: In bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Take a request's share, given back when the block ends."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            self.held -= hold.held
