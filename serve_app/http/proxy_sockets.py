"""Bounds of WebSockets in Ray Serve's HTTP proxies, which unpack messages before any code of ours runs.

Ray Serve gives its server no settings for WebSockets, and the server's own are 16 MiB a message, compressed at will: some
kilobytes can unpack to that. `RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH` names `bounded_sockets`, which Ray Serve calls in each
proxy before its server starts (`liveanchor serve` sets it; `docs/security.md` says where else).
"""

from __future__ import annotations

from typing import Any, Final

from uvicorn.config import WS_PROTOCOLS, Config
from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

MAX_BYTES: Final = 2**20 + 1024
"""Bytes of a message: a little more than `serve_app.http.live.socket` takes, so that one just above that gets our own words.

It is written here since that module imports much, and Ray Serve gives a proxy 15 seconds to start."""

_Served: Any = AutoWebSocketsProtocol or object


class BoundedSockets(_Served):  # type: ignore[misc]  # which class it is depends on what is installed
    """The server's own protocol, with messages of bounded size and without compression."""

    def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
        config.ws_max_size = MAX_BYTES
        config.ws_per_message_deflate = False
        super().__init__(config, *args, **kwargs)


def bounded_sockets() -> list[Any]:
    """Let servers that start in this process from now on bound their WebSockets; the list is empty: no middleware is added."""
    WS_PROTOCOLS["auto"] = f"{__name__}:{BoundedSockets.__name__}"
    return []
