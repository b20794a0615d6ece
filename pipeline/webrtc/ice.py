"""STUN and TURN servers: for ourselves and, in link headers, for clients."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiortc.rtcicetransport import parse_stun_turn_uri

from kernels.errors import InvalidInputError
from pipeline.live.settings import RtcSettings


@dataclass(frozen=True)
class HelperUrl:
    """The URL of a STUN or TURN server, taken apart.

    Attributes:
        url: As the settings have it.
        kind: "stun" or "turn".
        host: Name or address.
        port: 1..65535.
        transport: "udp" or "tcp", how the server is reached.
        tls: Whether it is reached through TLS.
        username: User name at a TURN server; None without one.
        credential: Password at a TURN server; None without one.
    """

    url: str
    kind: str
    host: str
    port: int
    transport: str
    tls: bool
    username: str | None
    credential: str | None = field(repr=False)


def helper_urls(rtc: RtcSettings) -> list[HelperUrl]:
    """The servers that we can ask ourselves, in the order of the settings; STUN over TLS is for clients only.

    Raises:
        InvalidInputError: A URL that is neither STUN nor TURN.
    """
    found = []
    for server in rtc.ice_servers:
        for url in server.urls:
            try:
                parts = parse_stun_turn_uri(url)
            except ValueError as error:
                allowed = "stun:host:port or turn:host:port?transport=udp"
                raise InvalidInputError("ice_servers", url, allowed) from error
            scheme, transport = parts["scheme"], parts.get("transport", "udp")
            if scheme == "stuns" or (scheme == "turns" and transport != "tcp"):
                continue
            username, credential = server.username or None, server.credential.get_secret_value() or None
            found.append(
                HelperUrl(
                    url, scheme[:4], parts["host"], parts["port"], transport, scheme == "turns", username, credential
                )
            )
    return found


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


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
