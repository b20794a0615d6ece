"""Where a request shows its key or token: in `Authorization: Bearer`, and for WebSockets of browsers in a subprotocol."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

SUBPROTOCOL: Final = "liveanchor"
"""What a browser's WebSocket speaks; the service answers this one and never the one with the token."""
_TOKEN_PROTOCOL: Final = "bearer."  # noqa: S105  # how the subprotocol begins that carries a token


def credential_of(scope: Scope) -> str | None:
    """What a request shows; None where it shows nothing, empty where it is nothing that could be a key.

    A browser cannot give a WebSocket headers, only subprotocols: `["liveanchor", "bearer.TOKEN"]`. Addresses carry no keys and no
    tokens, since addresses are written into logs.
    """
    headers = Headers(scope=scope)
    shown = headers.getlist("authorization")
    if len(shown) > 1:
        return ""
    if shown:
        kind, _, text = shown[0].strip().partition(" ")
        return text.strip() if kind.lower() == "bearer" else ""
    if scope["type"] == "websocket":
        tokens = [one for one in scope.get("subprotocols", ()) if one.startswith(_TOKEN_PROTOCOL)]
        if tokens:
            return tokens[0].removeprefix(_TOKEN_PROTOCOL) if len(tokens) == 1 else ""
    return None


def chosen_subprotocol(scope: Scope) -> str | None:
    """The subprotocol that a WebSocket is accepted with; None where the client named none of ours."""
    return SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", ()) else None
