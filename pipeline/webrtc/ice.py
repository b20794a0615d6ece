"""STUN and TURN servers: for ourselves and, in link headers, for clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aiortc.rtcicetransport import parse_stun_turn_uri

from kernels.errors import InvalidInputError
from pipeline.live.settings import IceServer, RtcSettings
from pipeline.webrtc.turn_credentials import OWN_NAME, TurnCredentials, own_credentials


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
        mint: Makes user name and password in place of these two; None where they are fixed.
    """

    url: str
    kind: str
    host: str
    port: int
    transport: str
    tls: bool
    username: str | None
    credential: str | None = field(repr=False)
    mint: Callable[[], TurnCredentials] | None = field(default=None, repr=False, compare=False)

    @property
    def login(self) -> tuple[str | None, str | None]:
        """User name and password for a request that is made now."""
        return (self.username, self.credential) if self.mint is None else self.mint()


def helper_urls(rtc: RtcSettings, wall_clock: Callable[[], float] = time.time) -> list[HelperUrl]:
    """The servers that we can ask ourselves, in the order of the settings; STUN over TLS is for clients only.

    Args:
        rtc: Names the servers.
        wall_clock: Unix seconds, for credentials that end.

    Raises:
        InvalidInputError: A URL that is neither STUN nor TURN.
    """
    named = [("ice_servers", server) for server in rtc.ice_servers]
    if rtc.turn_urls:
        named.append(("turn_urls", IceServer(urls=rtc.turn_urls)))
    found = []
    for setting, server in named:
        mint = (lambda: own_credentials(rtc, wall_clock(), OWN_NAME)) if setting == "turn_urls" else None
        for url in server.urls:
            try:
                parts = parse_stun_turn_uri(url)
            except ValueError as error:
                allowed = "stun:host:port or turn:host:port?transport=udp"
                raise InvalidInputError(setting, url, allowed) from error
            scheme, transport = parts["scheme"], parts.get("transport", "udp")
            if scheme == "stuns" or (scheme == "turns" and transport != "tcp"):
                continue
            username, credential = server.username or None, server.credential.get_secret_value() or None
            found.append(
                HelperUrl(
                    url,
                    scheme[:4],
                    parts["host"],
                    parts["port"],
                    transport,
                    scheme == "turns",
                    username,
                    credential,
                    mint,
                )
            )
    return found


def link_headers(servers: Iterable[IceServer]) -> list[str]:
    """`Link` headers of WHIP and WHEP (RFC 9725, section 4.6), secrets included."""
    links = []
    for server in servers:
        for url in server.urls:
            link = f'<{url}>; rel="ice-server"'
            if server.username:
                name, secret = _quoted(server.username), _quoted(server.credential.get_secret_value())
                link += f'; username="{name}"; credential="{secret}"; credential-type="password"'
            links.append(link)
    return links


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
