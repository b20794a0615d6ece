"""What is told about a publication, to processes that publish nothing, too."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.webrtc.peer_stats import PeerStats


class PublicationState(StrEnum):
    """Where a publication is in its life."""

    CONNECTING = "connecting"
    LIVE = "live"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True)
class PublicationStats:
    """What is known about a publication.

    Attributes:
        publication_id: Its id within the session.
        target: The ingest's address up to its path, which may be secret.
        state: `waiting` for the next attempt, `failed` for good.
        attempts: Connections that were tried.
        error: Why the last connection failed or ended; empty where none did.
        live_s: Seconds since the present connection stands; None without one.
        peer: Numbers of the present connection; None without one.
    """

    publication_id: str
    target: str
    state: PublicationState
    attempts: int
    error: str
    live_s: float | None
    peer: PeerStats | None
