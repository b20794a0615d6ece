"""One attempt to publish a session: WHIP's request and the WebRTC connection that it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from kernels.errors import LiveAnchorError
from pipeline.publish.target import PublishTarget
from pipeline.publish.whip_endpoint import WhipEndpoint, WhipSession
from pipeline.publish.whip_peer import WhipPeer
from pipeline.webrtc.peer_stats import PeerStats


class Connection(Protocol):
    """One way to an ingest, used once: opened, waited for, closed."""

    async def open(self) -> None:
        """Return when media flow. Raises InvalidInputError where that can never work, IngestUnreachableError where not now."""
        ...

    async def over(self) -> None:
        """Wait until media do not flow any more."""
        ...

    async def close(self) -> None:
        """Free everything; harmless when repeated, and after an `open` that failed."""
        ...

    def stats(self) -> PeerStats:
        """What was sent and lost so far."""
        ...


Connect = Callable[[PublishTarget], Connection]


class WhipConnection:
    """Implements `Connection` by WHIP.

    Args:
        endpoint: The ingest.
        peer: Sends the session.
        connect_timeout_s: ICE and DTLS must be done in this time after the ingest's answer.
    """

    def __init__(self, endpoint: WhipEndpoint, peer: WhipPeer, connect_timeout_s: float) -> None:
        self._endpoint = endpoint
        self._peer = peer
        self._connect_timeout_s = connect_timeout_s
        self._session: WhipSession | None = None

    async def open(self) -> None:
        """Offer, and wait for the connection."""
        self._session = await self._endpoint.begin(await self._peer.offer())
        await self._peer.accept(self._session.sdp)
        await self._peer.connected(self._connect_timeout_s)

    async def over(self) -> None:
        """Wait until the connection is lost or closed by the ingest."""
        await self._peer.over()

    async def close(self) -> None:
        """Delete the session at the ingest, which may be gone, and close the connection."""
        session, self._session = self._session, None
        try:
            if session is not None:
                await self._endpoint.end(session)
        except LiveAnchorError as error:
            structlog.get_logger("liveanchor.publish").info("ingest_session_not_deleted", code=error.code)
        finally:
            await self._peer.close()

    def stats(self) -> PeerStats:
        """What was sent and lost so far."""
        return self._peer.stats()
