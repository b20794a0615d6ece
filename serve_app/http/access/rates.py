"""Which requests of a caller are counted, and how."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from serve_app.access.caller import NOBODY, Caller
from serve_app.access.loopback import is_loopback
from serve_app.access.settings import QuotaSettings
from serve_app.http.access.counters import Counters, Standing

REQUESTS: Final = "requests"
OFFERS: Final = "offers"
_OFFER: Final = re.compile(r"/stream/(?:webrtc/offer|livekit|whip(?:/.*)?|whep/.*)", re.DOTALL)
"""Addresses that begin a WebRTC connection, which costs far more than any other request."""


class Rates:
    """Counts the requests of keys, and offers of everybody else by address.

    Loopback addresses are not counted: a proxy on this machine, which all clients come through, looks like one client.

    Args:
        settings: The limits.
        wall_clock: Gives seconds since the epoch.
    """

    def __init__(self, settings: QuotaSettings, wall_clock: Callable[[], float] = time.time) -> None:
        quotas = {REQUESTS: settings.requests_per_minute, OFFERS: settings.offers_per_minute}
        self._counters = Counters(quotas, settings.counters, wall_clock)

    async def count(self, caller: Caller, method: str, path: str) -> list[Standing]:
        """Count a request, and tell where its caller stands now with each limit that it falls under.

        Raises:
            QuotaExceededError: It was one too many.
        """
        keyed = caller.owner != NOBODY
        policies = [REQUESTS] if keyed else []
        if method == "POST" and _OFFER.fullmatch(path) and (keyed or not is_loopback(caller.client)):
            policies.append(OFFERS)
        found = [await self._counters.count(policy, caller.client) for policy in policies]
        return [one for one in found if one is not None]
