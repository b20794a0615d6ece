"""Which room a session is to join, as a caller says it."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from kernels.errors import InvalidInputError
from pipeline.fetch.checked_url import PLAIN

SCHEMES: Final = ("wss", "ws", "https", "http")
MAX_TOKEN: Final = 16_384
ON_BEHALF: Final = "lk.publish_on_behalf"
"""Attribute of a presenter's token: identity of the agent that it speaks for."""
_PLACE: Final = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
"""A host and port that every program reads alike: LiveKit's client does not read addresses as `urlsplit` does."""
_TOKEN: Final = "a LiveKit access token (a JWT) with a room to join and an identity"  # noqa: S105  # says what is allowed


@dataclass(frozen=True)
class RoomInvitation:
    """A room that a session may join.

    Attributes:
        url: Address of the LiveKit server.
        token: Lets its bearer join; the server checks it, not we. Never logged.
        room: Name of the room, as the token says it.
        identity: Who the session will be there, as the token says it.
        agent: Identity of the agent that it speaks for; empty where the token does not say it, then any agent of the room.
    """

    url: str
    token: str = field(repr=False)
    room: str
    identity: str
    agent: str

    @property
    def host(self) -> str:
        """Host of the server."""
        return urlsplit(self.url).hostname or ""


def read_invitation(url: str, token: str, hosts: Sequence[str]) -> RoomInvitation:
    """Check an address and read what a token says, without checking its signature: that is the server's part.

    Args:
        url: Address of a LiveKit server, such as wss://live.example.
        token: Access token.
        hosts: Hosts that sessions may be sent to; `*.live.example` stands for all under it.

    Raises:
        InvalidInputError: `url` is no such address or not among `hosts`, or `token` is none that lets somebody join a room.
    """
    allowed = f"{', '.join(hosts) or 'none'}; the operator sets live.livekit_hosts"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidInputError("url", url[:80], "an address such as wss://live.example") from error
    if not PLAIN.fullmatch(url) or parts.scheme not in SCHEMES or not _PLACE.fullmatch(parts.netloc):
        raise InvalidInputError("url", url[:80], "an address such as wss://live.example")
    if not any(host == one or (one.startswith("*.") and host.endswith(one[1:])) for one in hosts):
        raise InvalidInputError("url", host[:80], allowed)
    claims = _claims(token)
    grants, attributes = claims.get("video"), claims.get("attributes")
    room = grants.get("room") if isinstance(grants, dict) and grants.get("roomJoin") is True else None
    identity = claims.get("sub")
    if not (isinstance(room, str) and room and isinstance(identity, str) and identity):
        raise InvalidInputError("token", "a token without them", _TOKEN)
    agent = attributes.get(ON_BEHALF) if isinstance(attributes, dict) else None
    return RoomInvitation(url, token, room, identity, agent if isinstance(agent, str) else "")


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN:
        raise InvalidInputError("token", f"{len(token)} characters in {len(parts)} parts", _TOKEN)
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise InvalidInputError("token", "a middle part that cannot be read", _TOKEN) from error
    if not isinstance(found, dict):
        raise InvalidInputError("token", "claims that are no object", _TOKEN)
    return found
