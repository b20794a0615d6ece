"""The clock of real sessions, which is the machine's monotonic one."""

from __future__ import annotations

import asyncio
import time


class MonotonicClock:
    """Implements `LiveClock` with the monotonic clock and the event loop's timers."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    async def sleep_until(self, when: float) -> None:
        """Return at `when`; other tasks run meanwhile, even where `when` is past."""
        await asyncio.sleep(max(when - time.monotonic(), 0.0))
