"""Whether live sessions reach this machine: STUN and TURN servers, and one session with its first picture."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from kernels.errors import InvalidInputError, first_line
from liveanchor.client import AsyncClient, ClientError
from serve_app.cli.finding import Finding
from serve_app.cli.service.visit import Visit, trouble

if TYPE_CHECKING:
    from pipeline.webrtc.ice import HelperUrl

ASK_S: Final = 6.0
CONNECT_S: Final = 15.0
PICTURE_S: Final = 10.0
NAME: Final = "live session"


def live(visit: Visit) -> list[Finding]:
    """Ask every STUN and TURN server that clients are given, then hold one session until its first picture is here."""
    if find_spec("aiortc") is None:
        return [Finding(NAME, "optional", "not looked at", "for it, here: pip install 'liveanchor[live]'")]
    try:
        servers = visit.client.live.ice_servers()
    except ClientError as error:
        return [trouble("ice servers", error)]
    return [*asyncio.run(_helpers(visit, servers)), asyncio.run(_session(visit, servers))]


async def _helpers(visit: Visit, servers: Sequence[dict[str, Any]]) -> list[Finding]:
    from pipeline.live.settings import RtcSettings
    from pipeline.webrtc.ice import helper_urls
    from pipeline.webrtc.names import Names

    if not servers:
        if visit.is_here:
            return [Finding("ice servers", "ok", "none, and none needed on one machine")]
        advice = "rtc.ice_servers: a TURN server (coturn) for clients behind firewalls (docs/deploy.md)"
        return [Finding("ice servers", "optional", "none", advice)]
    plain = [{name: value for name, value in one.items() if value is not None} for one in servers]
    try:
        found = helper_urls(RtcSettings.model_validate({"ice_servers": plain}))
    except (InvalidInputError, ValueError) as error:
        return [Finding("ice servers", "missing", first_line(error), "correct rtc.ice_servers")]
    names = Names()
    return list(await asyncio.gather(*(_helper(one, names) for one in found)))


async def _helper(server: HelperUrl, names: Any) -> Finding:
    from pipeline.webrtc.helpers import FAULTS, candidates_from

    wanted = "relay" if server.kind == "turn" else "srflx"
    try:
        async with asyncio.timeout(ASK_S):
            told = [one for one in await candidates_from(server, names) if one.type == wanted]
    except TimeoutError:
        told = []
    except FAULTS as error:
        return Finding(server.url, "missing", first_line(error, named=True), "correct its name, or start it")
    if told:
        word = "relays" if server.kind == "turn" else "tells our address"
        return Finding(server.url, "ok", f"{word}: {told[0].host}")
    advice = "open its port to clients; for turn: compare user name and credential with the server's own"
    return Finding(server.url, "missing", "no answer, or it refuses us", advice)


async def _session(visit: Visit, servers: Sequence[dict[str, Any]]) -> Finding:
    from aiortc import RTCConfiguration, RTCIceServer, RTCPeerConnection, RTCSessionDescription
    from aiortc.exceptions import InvalidStateError
    from aiortc.mediastreams import MediaStreamError

    ice = [RTCIceServer(one["urls"], one.get("username"), one.get("credential")) for one in servers]
    peer = RTCPeerConnection(RTCConfiguration(iceServers=ice))
    receiver = peer.addTransceiver("video", direction="recvonly").receiver
    peer.addTransceiver("audio", direction="recvonly")
    connected, began = asyncio.Event(), visit.clock()

    @peer.on("connectionstatechange")
    def changed() -> None:
        if peer.connectionState in ("connected", "failed"):
            connected.set()

    async with AsyncClient(visit.url, visit.api_key) as client:
        session_id = ""
        try:
            await peer.setLocalDescription(await peer.createOffer())
            session = await client.live.offer(str(peer.localDescription.sdp), drive="push")
            session_id = session.session_id
            await peer.setRemoteDescription(RTCSessionDescription(session.sdp, "answer"))
            async with asyncio.timeout(CONNECT_S):
                await connected.wait()
            if peer.connectionState != "connected":
                raise TimeoutError
            async with asyncio.timeout(PICTURE_S):
                picture: Any = await receiver.track.recv()
        except ClientError as error:
            return trouble(NAME, error)
        except TimeoutError:
            return _no_media(connected.is_set() and peer.connectionState == "connected")
        except (MediaStreamError, InvalidStateError, ValueError) as error:
            return Finding(NAME, "missing", first_line(error, named=True), "look at the service's logs")
        finally:
            await peer.close()
            if session_id:
                await _closed(client, session_id)
    return Finding(
        NAME, "ok", f"first picture, {picture.width}x{picture.height}, {visit.clock() - began:.1f} s after the offer"
    )


def _no_media(connected: bool) -> Finding:
    if connected:
        return Finding(NAME, "missing", "connected, but no picture came", "look at the service's logs and its metrics")
    advice = "open rtc.udp_port_min to udp_port_max (UDP), set rtc.public_ip behind NAT, or add a TURN server"
    return Finding(NAME, "missing", "the offer was answered, but no connection came", advice)


async def _closed(client: AsyncClient, session_id: str) -> None:
    try:
        await client.live.close(session_id)
    except ClientError:
        return  # it has ended by itself
