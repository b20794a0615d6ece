"""Bounds of one ingress process: jobs at once, uploads that come in at once, and bytes of uploads held in memory at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from deployments.host.counted import counted
from serve_app.access.caller import NOBODY, Caller
from serve_app.access.loopback import is_loopback
from serve_app.http.problems.errors import BusyError, QuotaExceededError


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


class UploadGate:
    """Lets so many uploads come at once, and so many of one client, so that slow ones cannot take every connection.

    Clients on loopback without a key have no limit of their own: a proxy on this machine looks like one client.

    Args:
        limit: Uploads at once.
        own_limit: Uploads of one client at once.
        retry_after_s: What a client that has too many is told to wait.
    """

    def __init__(self, limit: int, own_limit: int, retry_after_s: float) -> None:
        self._limit = limit
        self._own_limit = own_limit
        self._retry_after_s = max(1, round(retry_after_s))
        self._coming: Counter[str] = Counter()

    @property
    def coming(self) -> int:
        """Uploads that come in now."""
        return self._coming.total()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Take a place for as long as a body comes in.

        Raises:
            BusyError: All places are taken.
            QuotaExceededError: This client has taken all that it may.
        """
        if self.coming >= self._limit:
            raise BusyError(f"{self._limit} uploads that come in, the most that it takes")
        own = self._coming[caller.client] if caller.client in self._coming else 0
        if own >= self._own_limit and not (caller.owner == NOBODY and is_loopback(caller.client)):
            raise QuotaExceededError("uploads", self._own_limit, "at once", self._retry_after_s)
        with counted(self._coming, caller.client):
            yield


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
