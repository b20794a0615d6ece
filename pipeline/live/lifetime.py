"""How long a session lives: its client must come in time, and the first reason to end it counts."""

from __future__ import annotations

import asyncio

from pipeline.live.contracts import EndReason, LiveClock


class Lifetime:
    """Knows whether one session lives, waits for its client, and keeps the reason why it ends.

    Args:
        clock: Clock that the wait for the client is measured with.
        connect_timeout_s: Seconds that the client may take to come.

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
        """Note that the client has come."""
        self._connected.set()

    def end(self, reason: EndReason) -> None:
        """End the session; the first reason counts."""
        if self.reason is None:
            self.reason = reason
            self._ending.set()

    async def client_came(self) -> bool:
        """Wait for the client; False where the session ends first, which includes a client that does not come in time."""
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
