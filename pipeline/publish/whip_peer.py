"""A WebRTC connection that we offer to an ingest: a hub's pictures and voice go out, nothing comes in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog
from aiortc import RTCBundlePolicy, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.exceptions import OperationError

from pipeline.live.settings import RtcSettings
from pipeline.publish.errors import IngestRefusedError, IngestUnreachableError
from pipeline.webrtc import gathering, rtc_patches, sdp
from pipeline.webrtc.h264_formats import CONSTRAINED_BASELINE
from pipeline.webrtc.helpers import Helpers
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.hub_sender import HubSender, sent_codecs
from pipeline.webrtc.offer_text import bounded_candidates
from pipeline.webrtc.packets import MediaKind
from pipeline.webrtc.peer import AIORTC_FAULTS, CLOSE_TIMEOUT_S
from pipeline.webrtc.peer_stats import PeerStats

_TAKES_BOTH: Final = "an ingest that takes H.264 Constrained Baseline and Opus over WebRTC"


class WhipPeer:
    """Offers a hub's media, takes the answer, and ends cleanly. Belongs to one event loop.

    The offer names Constrained Baseline at level 3.1 in packetization-mode 1, whatever the size of the pictures, as browsers and
    OBS do and ingests expect; the true level stands in the stream itself.

    Args:
        hub: What is sent; the voice only where the hub sends it.
        rtc: Addresses and ports.
        helpers: STUN and TURN servers of this process.
        clock: Monotonic seconds.
    """

    def __init__(
        self, hub: LiveHub, rtc: RtcSettings, helpers: Helpers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        rtc_patches.apply_patches()
        self._rtc = rtc
        self._helpers = helpers
        self._clock = clock
        self._sender = HubSender(hub, clock)
        self._began_at = clock()
        self._connected_after_s: float | None = None
        self._up: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._down = asyncio.Event()
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE))
        self._pc.on("connectionstatechange", self._state_changed)
        kinds: tuple[MediaKind, ...] = ("video", "audio") if hub.echo else ("video",)
        for kind in kinds:
            transceiver = self._pc.addTransceiver(kind, direction="sendonly")
            transceiver.setCodecPreferences(
                [
                    codec
                    for codec in sent_codecs(kind)
                    if str(codec.parameters.get("profile-level-id", CONSTRAINED_BASELINE)).startswith(
                        CONSTRAINED_BASELINE
                    )
                ]
            )
            self._sender.attach(kind, transceiver)

    async def offer(self) -> str:
        """Our session description with all our candidates."""
        ports = gathering.port_range(self._rtc.udp_port_min, self._rtc.udp_port_max)
        with ports, gathering.helped_by(self._helpers.ask):
            await self._pc.setLocalDescription(await self._pc.createOffer())
        return sdp.public_answer(self._pc.localDescription.sdp, self._rtc.public_ip)

    async def accept(self, answer: str) -> None:
        """Take the ingest's session description; of its candidates those that a client's offer might hold, too.

        Raises:
            IngestRefusedError: It is none, or takes not all that was offered.
        """
        try:
            await self._pc.setRemoteDescription(RTCSessionDescription(bounded_candidates(answer), "answer"))
        except (OperationError, *AIORTC_FAULTS) as error:
            raise IngestRefusedError("url", "one that answers no fitting session description", _TAKES_BOTH) from error
        refused = [one.kind for one in self._pc.getTransceivers() if one.currentDirection != "sendonly"]
        if refused:
            raise IngestRefusedError("url", f"one that takes no {refused[0]}", _TAKES_BOTH)

    async def connected(self, timeout_s: float) -> None:
        """Wait until media can flow.

        Raises:
            IngestUnreachableError: They cannot within so many seconds.
        """
        try:
            async with asyncio.timeout(timeout_s):
                if await asyncio.shield(self._up):
                    return
        except TimeoutError:
            raise IngestUnreachableError(f"no connection for media within {timeout_s:g} s") from None
        raise IngestUnreachableError("the ingest ended the connection before any media")

    async def over(self) -> None:
        """Wait until the connection is lost or closed by the ingest."""
        await self._down.wait()

    def stats(self) -> PeerStats:
        """What was sent and lost so far."""
        sent_at, after_s = self._sender.first_picture_at, self._connected_after_s
        first_s = None if sent_at is None else sent_at - self._began_at - (after_s or 0.0)
        return self._sender.stats(str(self._pc.connectionState), after_s, first_s)

    async def close(self) -> None:
        """End the connection and free everything; harmless when repeated."""
        self._pc.remove_all_listeners()
        self._sender.stop()
        self._down.set()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._pc.close()
        except (TimeoutError, *AIORTC_FAULTS) as error:
            structlog.get_logger("liveanchor.publish").warning("peer_not_closed", fault=type(error).__name__)

    def _state_changed(self) -> None:
        state = self._pc.connectionState
        if state == "connected" and not self._up.done():
            self._connected_after_s = self._clock() - self._began_at
            self._up.set_result(True)
        elif state in ("failed", "closed"):
            if not self._up.done():
                self._up.set_result(False)
            self._down.set()
