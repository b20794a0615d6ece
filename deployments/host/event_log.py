"""A session's last events, for any number of listeners that come and go."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Final

from deployments.host.live_calls import NumberedEvent
from pipeline.live.contracts import LiveEvent

KEPT: Final = 256


class EventLog:
    """Keeps the last events of one session and wakes their listeners. It belongs to one event loop."""

    def __init__(self) -> None:
        self._events: deque[NumberedEvent] = deque(maxlen=KEPT)
        self._count = 0
        self._closed = False
        self._changed = asyncio.Event()

    def add(self, event: LiveEvent) -> None:
        """Keep an event and wake every listener."""
        self._count += 1
        data = {key: value for key, value in asdict(event).items() if value is not None and value != ""}
        del data["name"]
        self._events.append(NumberedEvent(self._count, event.name, data))
        self._wake()

    def close(self) -> None:
        """Take no more events: listeners end when they have seen the last one."""
        self._closed = True
        self._wake()

    async def follow(self, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """Follow the events from number `after + 1` on, as they come, to the end; events that are not kept any more are left out.

        A number that was not reached yet stands for the newest one.
        """
        after = min(after, self._count)
        while True:
            changed = self._changed
            for event in [one for one in self._events if one.number > after]:
                after = event.number
                yield event
            if self._closed and after >= self._count:
                return
            if changed is self._changed:
                await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
