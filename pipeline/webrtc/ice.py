"""STUN and TURN servers: for ourselves and, in link headers, for clients."""

from __future__ import annotations

from aiortc import RTCConfiguration, RTCIceServer
from aiortc.rtcicetransport import parse_stun_turn_uri

from kernels.errors import InvalidInputError
from pipeline.live.settings import IceServer, RtcSettings


def configuration(rtc: RtcSettings) -> RTCConfiguration:
    """What aiortc is told. Without servers it asks none: its own default is a public STUN server, up to 5 s per peer.

    aioice uses the first STUN and the first TURN server only.

    Raises:
        InvalidInputError: A URL that is neither STUN nor TURN.
    """
    return RTCConfiguration(iceServers=[_server(server) for server in rtc.ice_servers])


def link_headers(rtc: RtcSettings) -> list[str]:
    """`Link` headers of WHIP and WHEP (RFC 9725, section 4.6), secrets included."""
    links = []
    for server in rtc.ice_servers:
        for url in server.urls:
            link = f'<{url}>; rel="ice-server"'
            if server.username:
                name, secret = _quoted(server.username), _quoted(server.credential.get_secret_value())
                link += f'; username="{name}"; credential="{secret}"; credential-type="password"'
            links.append(link)
    return links


def _server(server: IceServer) -> RTCIceServer:
    for url in server.urls:
        try:
            parse_stun_turn_uri(url)
        except ValueError as error:
            raise InvalidInputError("ice_servers", url, "stun:host:port or turn:host:port?transport=udp") from error
    return RTCIceServer(
        urls=list(server.urls),
        username=server.username or None,
        credential=server.credential.get_secret_value() or None,
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
