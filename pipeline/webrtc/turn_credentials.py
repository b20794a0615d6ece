"""Credentials of TURN servers that end by themselves.

The scheme is that of "A REST API For Access To TURN Services" (draft-uberti-behave-turn-rest-00), as coturn knows it under
`use-auth-secret`: the user name is `expiry:name`, the password base64(HMAC-SHA1(secret, user name)). No password is
stored anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final, NamedTuple

from pydantic import SecretStr

from pipeline.live.settings import IceServer, RtcSettings

ANYBODY: Final = "client"
"""Name of a client that has none."""
OWN_NAME: Final = "liveanchor"
"""Name of the service itself."""


class TurnCredentials(NamedTuple):
    """A user name and its password."""

    username: str
    password: str


def turn_credentials(secret: str, expires_at: int, name: str) -> TurnCredentials:
    """Make credentials.

    Args:
        secret: Shared with the TURN server.
        expires_at: Unix seconds from which they begin no more relays; relays that were begun go on.
        name: Whom they are for; appears in the server's log.
    """
    username = f"{expires_at}:{name}"
    digest = hmac.new(secret.encode(), username.encode(), hashlib.sha1).digest()
    return TurnCredentials(username, base64.b64encode(digest).decode())


def own_credentials(rtc: RtcSettings, now_s: float, name: str) -> TurnCredentials:
    """Credentials for `rtc.turn_urls` that are valid for `rtc.turn_ttl_s` from now, Unix seconds."""
    return turn_credentials(rtc.turn_secret.get_secret_value(), int(now_s) + rtc.turn_ttl_s, name)


def servers_for(rtc: RtcSettings, now_s: float, name: str) -> tuple[IceServer, ...]:
    """The servers that a client is given: those of the settings as they are, then those whose credentials are made now.

    Args:
        rtc: Names the servers.
        now_s: Unix seconds.
        name: Whom the credentials are for.
    """
    if not rtc.turn_urls:
        return rtc.ice_servers
    username, password = own_credentials(rtc, now_s, name)
    return *rtc.ice_servers, IceServer(urls=rtc.turn_urls, username=username, credential=SecretStr(password))
