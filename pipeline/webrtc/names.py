"""Names of servers become addresses without a thread of the loop's own pool, which a resolver that hangs would fill."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

KEPT_S = 300.0
"""An address older than this is still used, and looked up again meanwhile."""


@dataclass(frozen=True)
class _Known:
    address: str
    until: float


def look_up(host: str) -> str:
    """The first IPv4 address of a host; blocks as long as the system's resolver does.

    Raises:
        OSError: It has none, or the resolver fails.
    """
    found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM)
    return str(found[0][4][0])


class Names:
    """Addresses of hosts, remembered; one look-up of a host at a time, each in a thread of its own. Belongs to one event loop.

    Args:
        lookup: Blocks until it knows a host's address; raises `OSError` where there is none.
        clock: Monotonic seconds.
    """

    def __init__(self, lookup: Callable[[str], str] = look_up, clock: Callable[[], float] = time.monotonic) -> None:
        self._lookup = lookup
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._running: dict[str, asyncio.Future[str | OSError]] = {}

    async def address(self, host: str) -> str:
        """A host's address; waits for the resolver only while none is known. A caller that gives up waiting disturbs no other.

        Raises:
            OSError: It has none.
        """
        try:
            return str(ipaddress.ip_address(host))
        except ValueError:
            known = self._known.get(host)
        if known is None or self._clock() >= known.until:
            running = self._running.get(host) or self._begin(host)
            if known is None:
                found = await asyncio.shield(running)
                if isinstance(found, OSError):
                    raise found
                return found
        return known.address

    def _begin(self, host: str) -> asyncio.Future[str | OSError]:
        loop = asyncio.get_running_loop()
        self._running[host] = running = loop.create_future()

        def done(found: str | OSError) -> None:
            del self._running[host]
            if isinstance(found, str):
                self._known[host] = _Known(found, self._clock() + KEPT_S)
            if not running.cancelled():
                running.set_result(found)

        def work() -> None:
            try:
                found: str | OSError = self._lookup(host)
            except OSError as error:
                found = error
            except UnicodeError as error:  # a name that cannot be one, such as one with an empty label
                found = OSError(str(error))
            if not loop.is_closed():
                loop.call_soon_threadsafe(done, found)

        threading.Thread(target=work, name="ice-server-name", daemon=True).start()
        return running
