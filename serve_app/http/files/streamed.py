"""An answer whose body is made while it is sent, and which frees everything when it ends, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serve_app.http.body.disconnect import until_disconnect

VIDEO: str = "video/mp4"


class StreamedResponse(Response):
    """Adds to Starlette's: the iterator is closed and `resources` are freed before the request counts as over.

    An error while the body is being sent breaks the connection, so that no client takes a part for the whole.

    Args:
        pieces: The body.
        resources: Closed at the end; the iterator is closed first.
        status_code: HTTP status.
        headers: Headers of the answer.
        media_type: Content type.
        on_cancelled: Told when the client went away before the end.
        stall_s: A client that takes nothing for so long counts as gone.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        resources: AsyncExitStack,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = VIDEO,
        on_cancelled: Callable[[], None] = lambda: None,
        stall_s: float = 120.0,
    ) -> None:
        self.status_code = status_code
        self.media_type = media_type
        self.background = None
        self._pieces = pieces
        self._resources = resources
        self._on_cancelled = on_cancelled
        self._stall_s = stall_s
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI call."""
        async with self._resources:
            self._resources.push_async_callback(self._pieces.aclose)
            try:
                await until_disconnect(receive, self._send(send))
            except ClientDisconnect:
                self._on_cancelled()

    async def _send(self, send: Send) -> None:
        """Everything is free again before the client can see the end, so that its next request finds room.

        Where the length is known the end shows with the last piece, which is therefore held back.
        """
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sized, held = "content-length" in self.headers, b""
        async for data in self._pieces:
            out, held = (held, data) if sized else (data, b"")
            if out:
                await self._send_piece(send, out)
        await self._resources.aclose()
        await send({"type": "http.response.body", "body": held, "more_body": False})

    async def _send_piece(self, send: Send, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._stall_s):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError as error:
            raise ClientDisconnect() from error  # the server closes the connection, since the answer stays incomplete
