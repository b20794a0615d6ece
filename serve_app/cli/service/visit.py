"""What every look at a service needs, and how the client's errors become lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from liveanchor.client import Client, ClientError, NoAnswerError, StrangeAnswerError
from serve_app.access.loopback import is_loopback
from serve_app.cli.finding import Finding
from serve_app.cli.remote import KEY_ENV

BUSY: Final = ("no_capacity", "overloaded", "too_many_videos", "quota_exceeded")
"""Refusals of a service that is well and has much to do."""
FORBIDDEN: Final = 403
UNKNOWN: Final = 401


@dataclass(frozen=True)
class Visit:
    """One look at one service.

    Attributes:
        url: Its address.
        host: The host in it.
        api_key: Key to show; empty without one.
        client: Shows the key.
        stranger: Shows none.
        wall_clock: Unix seconds of this machine.
        clock: Monotonic seconds.
    """

    url: str
    host: str
    api_key: str
    client: Client
    stranger: Client
    wall_clock: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic

    @property
    def is_here(self) -> bool:
        """Whether the address is reached from this machine alone."""
        return is_loopback(self.host)


def trouble(name: str, error: ClientError) -> Finding:
    """What an error of the client means for whoever runs the service.

    Args:
        name: What was looked at.
        error: The error.
    """
    if isinstance(error, NoAnswerError):
        advice = "look at the service's logs" if error.reached else "start it, or correct the address, port or firewall"
        return Finding(name, "missing", error.message, advice)
    if isinstance(error, StrangeAnswerError):
        return Finding(name, "missing", error.message, "something else answers: look at the proxy in front")
    if error.status == UNKNOWN:
        return Finding(name, "missing", "it wants a key that it knows", f"set {KEY_ENV}: liveanchor keys create NAME")
    if error.status == FORBIDDEN:
        scope = error.problem.get("missing_scope", "?")
        return Finding(name, "optional", f"not looked at: the key has no scope {scope}", f"a key with --scopes {scope}")
    logs = f"; its logs name {error.request_id}" if error.request_id else ""
    if error.code in BUSY:
        return Finding(name, "optional", f"{error.code}: {error.message}", f"try again later{logs}")
    return Finding(name, "missing", f"{error.code}: {error.message}", f"docs/problems.md: {error.code}{logs}")
