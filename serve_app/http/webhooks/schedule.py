"""When a message is tried again that its receiver did not take."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from deployments.video_jobs.webhooks import MessageState

PAUSES_S: Final = (
    5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 3600.0, 7200.0, 7200.0, 7200.0, 7200.0, 11_800.0, 11_800.0, 11_800.0, 11_800.0,
)  # fmt: skip
"""Seconds after the first, second ... attempt that failed: 17 attempts within 24 hours. A receiver that fails half of the time
misses one message of 131,072."""
JITTER: Final = 0.2
"""Share by which a pause may be shorter, so that a receiver that was away does not get everything in one moment."""
LONGEST_ASKED_S: Final = 6 * 3600.0
"""Seconds that a receiver may ask for with `Retry-After`."""
GONE: Final = 410
"""Status by which a receiver says that it wants no messages any more."""


def verdict(tries: int, status: int, asked_s: float, chance: float) -> tuple[MessageState, float]:
    """Decide what becomes of a message after an attempt.

    Args:
        tries: Attempts so far, this one included.
        status: HTTP status of the answer; 0 where none came.
        asked_s: Seconds of the answer's `Retry-After`; 0 where it has none.
        chance: A draw from [0, 1).

    Returns:
        Where the message stands, and the seconds until the next attempt where it waits.
    """
    if 200 <= status < 300:
        return MessageState.DELIVERED, 0.0
    if status == GONE or tries > len(PAUSES_S):
        return MessageState.GIVEN_UP, 0.0
    pause_s = PAUSES_S[tries - 1] * (1 - JITTER * chance)
    return MessageState.WAITING, max(pause_s, min(asked_s, LONGEST_ASKED_S))


def asked_seconds(text: str, now: float) -> float:
    """Read `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date in any of HTTP's three forms.

    Args:
        text: The field's value; empty where it did not come.
        now: Seconds since the epoch.

    Returns:
        Seconds from now, at least 0; 0 for what is neither.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)
