"""Around every request: its id, the headers that every answer has, its counts, one line of log without any content."""

from __future__ import annotations

import re
import time
import traceback
import uuid
from collections.abc import Callable
from typing import Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve_app.access.keys import KEY_PREFIX, TOKEN_PREFIX
from serve_app.http.metrics import HttpMetrics
from serve_app.http.problems.translate import failure_response

REQUEST_ID: Final = "X-Request-Id"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}", re.ASCII)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECURITY: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
        "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


def request_id_of(scope: Scope) -> str:
    """The id of a request: the client's own where it is harmless, else a new one; always the same for one request."""
    state = scope.setdefault("state", {})
    if "request_id" not in state:
        wanted = Headers(scope=scope).get(REQUEST_ID, "")
        harmless = _ID.fullmatch(wanted) and not wanted.startswith((KEY_PREFIX, TOKEN_PREFIX))
        state["request_id"] = wanted if harmless else uuid.uuid4().hex
    found: str = state["request_id"]
    return found


def route_of(scope: Scope) -> str:
    """The route's own spelling (`/results/{id}`), never the address that came."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "static" if scope.get("path", "").startswith("/static/") else "unknown"


def _add_common_headers(headers: MutableHeaders, scope: Scope, cors: bool, echo_request_id: bool) -> None:
    """What every answer has, errors included; what a route has set stays."""
    for name, value in _SECURITY.items():
        headers.setdefault(name, value)
    headers.setdefault("Cross-Origin-Resource-Policy", "cross-origin" if cors else "same-origin")
    headers.setdefault("Cache-Control", "no-store")
    if echo_request_id:
        headers[REQUEST_ID] = request_id_of(scope)


class ContextMiddleware:
    """The outermost layer of ours.

    Args:
        app: What is inside.
        metrics: Told about every request.
        echo_request_id: Put the id into the answer.
        cors: Other origins may read answers.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: HttpMetrics,
        echo_request_id: bool,
        cors: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._echo = echo_request_id
        self._cors = cors
        self._clock = clock
        self._log = structlog.get_logger("liveanchor.http")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = self._clock()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_common_headers(MutableHeaders(scope=message), scope, self._cors, self._echo)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:  # the last line: what was not foreseen is a 500 that says so
            where = "".join(
                traceback.format_tb(error.__traceback__)
            )  # lines of code; no values, which may be anybody's content
            self._log.error("unforeseen", request_id=request_id_of(scope), kind=type(error).__name__, where=where)
            self._metrics.problem("internal_error")
            if status:
                raise  # the answer has begun: a broken connection tells the client that it is not whole
            await failure_response(request_id_of(scope))(scope, receive, send_with_headers)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            elapsed_ms = (self._clock() - started) * 1000
            self._metrics.request_done(method, route_of(scope), status, elapsed_ms)
            self._log.info(
                "request",
                request_id=request_id_of(scope),
                method=method,
                route=route_of(scope),
                status=status,
                ms=round(elapsed_ms, 1),
            )
