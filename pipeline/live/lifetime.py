"""Until when a session lives: its client comes in time, and the first reason to end it counts."""

from __future__ import annotations

import asyncio

from pipeline.live.contracts import EndReason, LiveClock


class Lifetime:
    """One session's.

    Args:
        clock: Time.
        connect_timeout_s: How long the client may take to come.

    Attributes:
        reason: Why the session ends or has ended; None while it lives.
    """

    def __init__(self, clock: LiveClock, connect_timeout_s: float) -> None:
        self._clock = clock
        self._connect_timeout_s = connect_timeout_s
        self._connected = asyncio.Event()
        self._ending = asyncio.Event()
        self.reason: EndReason | None = None

    def connected(self) -> None:
        """The client is there."""
        self._connected.set()

    def end(self, reason: EndReason) -> None:
        """End the session; the first reason counts."""
        if self.reason is None:
            self.reason = reason
            self._ending.set()

    async def client_came(self) -> bool:
        """Wait for the client; False when the session ends before, by a time-out, too."""
        deadline = self._clock.now() + self._connect_timeout_s
        waits = [
            asyncio.create_task(self._connected.wait()),
            asyncio.create_task(self._ending.wait()),
            asyncio.create_task(self._clock.sleep_until(deadline)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if not self._connected.is_set():
            self.end(EndReason.CONNECT_TIMEOUT)
        return self.reason is None
