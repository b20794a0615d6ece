"""`GET /stream/webrtc/{id}/events`: a session's events as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from deployments.host.live_calls import NumberedEvent
from deployments.host.live_commands import ReadStats
from kernels.errors import InvalidInputError, LiveAnchorError
from serve_app.http.files.streamed import StreamedResponse
from serve_app.http.live.host import LiveHost
from serve_app.http.openapi import problems
from serve_app.http.services import Services

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
"""Seconds of silence after which a comment is sent, so that proxies do not close the connection."""
RECONNECT_MS: Final = 1000
_LAST_EVENT: Final[dict[str, Any]] = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Events after this one; from the first that is kept when left out, new ones only when it is beyond the newest.",
    "schema": {"type": "integer", "minimum": 0},
}


def live_event_routes(services: Services, host: LiveHost) -> APIRouter:
    """Make the route of the event stream."""
    router = APIRouter(prefix="/stream/webrtc", tags=["live"])

    @router.get(
        "/{session_id}/events",
        response_class=Response,
        summary="Events of a live session",
        responses=_answer() | problems("session_not_found", "session_ended", 422, 500, 503),
        openapi_extra={"parameters": [_LAST_EVENT]},
    )
    async def events(session_id: str, request: Request) -> Response:
        """Server-sent events: `connected`, `speaking_started`, `speaking_finished {position_s, interrupted}`, `ended`, ...

        The same events come on the data channel `events`. `Last-Event-ID` continues where a broken connection stopped. The stream
        ends with the session.
        """
        after = _last_event(request)
        await host.handle(ReadStats(session_id))  # so that an unknown session is a 404 and not a broken stream
        source = host.events(session_id, after)
        stack = AsyncExitStack()
        stack.push_async_callback(source.aclose)
        return StreamedResponse(
            event_stream(source),
            stack,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
            media_type=EVENT_STREAM,
            stall_s=services.settings.limits.stall_s,
        )

    return router


async def event_stream(
    source: AsyncGenerator[NumberedEvent, None], heartbeat_s: float = HEARTBEAT_S
) -> AsyncGenerator[bytes, None]:
    """Write events as server-sent events, with comments while nothing happens.

    Args:
        source: Events of one session, in order.
        heartbeat_s: Longest silence in seconds.
    """
    yield f"retry: {RECONNECT_MS}\n\n".encode()
    pending: asyncio.Task[NumberedEvent | None] | None = None
    try:
        while True:
            pending = pending or asyncio.create_task(_next(source))
            done, _ = await asyncio.wait((pending,), timeout=heartbeat_s)
            if not done:
                yield b": still here\n\n"
                continue
            event, pending = pending.result(), None
            if event is None:
                return
            yield _line(event)
    except LiveAnchorError as error:  # the status was sent already, so the stream itself carries the error
        yield f"event: error\ndata: {json.dumps({'code': error.code, 'detail': str(error)})}\n\n".encode()
    finally:
        if pending is not None:
            pending.cancel()
            with suppress(asyncio.CancelledError, LiveAnchorError):
                await pending


async def _next(source: AsyncGenerator[NumberedEvent, None]) -> NumberedEvent | None:
    return await anext(source, None)


def _line(event: NumberedEvent) -> bytes:
    return f"id: {event.number}\nevent: {event.name}\ndata: {json.dumps(event.data)}\n\n".encode()


def _last_event(request: Request) -> int:
    value = request.headers.get("last-event-id", "0").strip()
    if not (value.isascii() and value.isdigit() and len(value) < 16):
        raise InvalidInputError("Last-Event-ID", value, "the id of an event")
    return int(value)


def _answer() -> dict[int | str, dict[str, Any]]:
    content = {EVENT_STREAM: {"schema": {"type": "string"}, "example": "id: 1\nevent: connected\ndata: {...}\n\n"}}
    return {200: {"description": "Server-sent events.", "content": content}}
