"""The layer that every request passes before any route sees it."""

from __future__ import annotations

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.host.live_errors import SessionNotFoundError
from kernels.errors import InvalidInputError, LiveAnchorError
from serve_app.http.access.access import Access, path_of
from serve_app.http.access.counters import rate_limit_fields
from serve_app.http.access.rates import Rates
from serve_app.http.context import request_id_of
from serve_app.http.draining import Draining, DrainingError
from serve_app.http.live.socket import POLICY_VIOLATION
from serve_app.http.metrics import HttpMetrics
from serve_app.http.problems.errors import QuotaExceededError
from serve_app.http.problems.translate import code_of, problem_response

_USUAL = (InvalidInputError, SessionNotFoundError, QuotaExceededError, DrainingError)


class AccessGuard:
    """Refuses requests whose key does not allow them, before a byte of their body is read.

    A WebSocket is refused before it is accepted, so that no message of a stranger is ever unpacked.

    Args:
        app: What is inside.
        access: Knows the keys.
        rates: Counts requests.
        draining: Refuses new work where the service is about to end.
        metrics: Told about refusals.
        retry_after_s: What a 503 tells callers to wait.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        rates: Rates,
        draining: Draining,
        metrics: HttpMetrics,
        retry_after_s: float,
    ) -> None:
        self._app = app
        self._draining = draining
        self._access = access
        self._rates = rates
        self._metrics = metrics
        self._retry_after_s = retry_after_s
        self._log = structlog.get_logger("liveanchor.http")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI call."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            caller = self._access.admit(scope)
            self._draining.check(scope.get("method", "GET"), path_of(scope))
            fields = rate_limit_fields(await self._rates.count(caller, scope.get("method", "GET"), path_of(scope)))
        except LiveAnchorError as error:
            await self._refuse(error, scope, receive, send)
            return

        async def send_with_fields(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(fields)
            await send(message)

        await self._app(scope, receive, send_with_fields if fields else send)

    async def _refuse(self, error: LiveAnchorError, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.problem(code_of(error))
        if not isinstance(error, _USUAL):
            self._log.error("keys_not_checked", request_id=request_id_of(scope), code=error.code, reason=str(error))
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": code_of(error)})
            return
        await problem_response(error, request_id_of(scope), self._retry_after_s)(scope, receive, send)
