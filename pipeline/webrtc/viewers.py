"""Viewers of a session that only watch (WHEP): any number of them, one encode."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial

from pipeline.live.contracts import EndReason
from pipeline.live.settings import RtcSettings
from pipeline.webrtc.errors import PeerClosedError, TooManyViewersError, UnknownViewerError
from pipeline.webrtc.helpers import Helpers
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.peer_stats import PeerStats
from pipeline.webrtc.sdp import TrickledCandidate


class Viewers:
    """The viewers of one hub.

    Args:
        hub: What they see and hear.
        rtc: Addresses, ports, servers, and how many there may be.
        connect_timeout_s: As of `LivePeer`.
        helpers: As of `LivePeer`.
        make_peer: Makes a peer; for tests.
    """

    def __init__(
        self,
        hub: LiveHub,
        rtc: RtcSettings,
        *,
        connect_timeout_s: float = 20.0,
        helpers: Helpers | None = None,
        make_peer: Callable[..., LivePeer] = LivePeer,
    ) -> None:
        self._hub = hub
        self._rtc = rtc
        self._connect_timeout_s = connect_timeout_s
        self._helpers = helpers
        self._make_peer = make_peer
        self._peers: dict[str, LivePeer] = {}
        self._offers: dict[str, str] = {}
        self._closed = False

    def __len__(self) -> int:
        """Viewers, connected or on their way."""
        return len(self._peers)

    async def add_viewer(self, offer_sdp: str) -> tuple[str, str]:
        """Answer a viewer's offer.

        Returns:
            The viewer's id, for the `Location` of WHEP, and our session description.

        Raises:
            TooManyViewersError: There are `max_viewers`.
            PeerClosedError: The session is ending.
            InvalidInputError: As `LivePeer.answer`.
            NoCommonCodecError: As `LivePeer.answer`.
        """
        if self._closed:
            raise PeerClosedError("the session is ending")
        if len(self._peers) >= self._rtc.max_viewers:
            raise TooManyViewersError(f"this session has all of its {self._rtc.max_viewers} viewers")
        viewer_id = secrets.token_hex(8)
        peer = self._make_peer(
            self._hub,
            self._rtc,
            connect_timeout_s=self._connect_timeout_s,
            microphone=False,
            helpers=self._helpers,
            on_ended=partial(self._ended, viewer_id),
        )
        self._peers[viewer_id], self._offers[viewer_id] = peer, offer_sdp
        try:
            return viewer_id, await peer.answer(offer_sdp)
        except BaseException:
            self._forget(viewer_id)
            raise

    async def add_candidates(self, viewer_id: str, candidates: Sequence[TrickledCandidate | None]) -> None:
        """Take candidates that a viewer trickles.

        Raises:
            UnknownViewerError: Not one of ours.
            InvalidInputError: As `LivePeer.add_candidates`.
        """
        await self._peer(viewer_id).add_candidates(candidates)

    def offer_of(self, viewer_id: str) -> str:
        """A viewer's offer, to tell a trickle from an ICE restart.

        Raises:
            UnknownViewerError: Not one of ours.
        """
        self._peer(viewer_id)
        return self._offers[viewer_id]

    async def remove(self, viewer_id: str) -> bool:
        """End a viewer; False where there is none of that name."""
        peer = self._peers.get(viewer_id)
        self._forget(viewer_id)
        if peer is not None:
            await peer.close()
        return peer is not None

    def stats(self) -> dict[str, PeerStats]:
        """Every viewer's connection."""
        return {viewer_id: peer.stats() for viewer_id, peer in self._peers.items()}

    async def close(self) -> None:
        """End them all, and let no other in; harmless when repeated."""
        self._closed = True
        for viewer_id in list(self._peers):
            await self.remove(viewer_id)

    def _ended(self, viewer_id: str, _: EndReason) -> None:
        self._forget(viewer_id)

    def _forget(self, viewer_id: str) -> None:
        self._peers.pop(viewer_id, None)
        self._offers.pop(viewer_id, None)

    def _peer(self, viewer_id: str) -> LivePeer:
        if viewer_id not in self._peers:
            raise UnknownViewerError(f"no viewer {viewer_id[:40]}")
        return self._peers[viewer_id]
