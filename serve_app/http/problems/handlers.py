"""Hands every error to `serve_app.http.problems.translate`."""

from __future__ import annotations

from typing import Final

import structlog
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Mount

from deployments.graph.errors import plain
from kernels.errors import InvalidInputError, LiveAnchorError
from serve_app.http.context import request_id_of, route_of
from serve_app.http.metrics import HttpMetrics
from serve_app.http.problems.translate import code_of_routing, http_problem_response, kind_of, problem_response, shown
from serve_app.http.settings import ApiSettings

CLIENT_CLOSED = 499
"""Status of a request whose client is gone; it only shows in logs and counts."""
METHODS: Final = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
LOGGED: Final = 2000
"""Characters of a reason; an address that a caller made up may be longer."""


def _methods_of(request: Request) -> list[str]:
    """Every method that the address takes (Starlette names those of one route alone); none below a mount, which knows its own."""
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]
    return [
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


def install_error_handlers(api: FastAPI, settings: ApiSettings, metrics: HttpMetrics) -> None:
    """Answer every error of ours and of routing with problem details; what is left, `ContextMiddleware` catches."""
    log = structlog.get_logger("liveanchor.http")

    @api.exception_handler(LiveAnchorError)
    async def _ours(request: Request, raised: LiveAnchorError) -> Response:
        error = plain(raised)
        request_id = request_id_of(request.scope)
        metrics.problem(error.code)
        if not isinstance(error, InvalidInputError):
            reason, status = shown(str(error), LOGGED), kind_of(error).status
            log.warning("failed", request_id=request_id, code=error.code, reason=reason, status=status)
        return problem_response(error, request_id, settings.limits.retry_after_s)

    @api.exception_handler(HTTPException)
    async def _routing(request: Request, error: HTTPException) -> Response:
        metrics.problem(code_of_routing(error))
        if error.status_code == 405 and (methods := _methods_of(request)):
            error.headers = {**(error.headers or {}), "Allow": ", ".join(methods)}
        return http_problem_response(error, request_id_of(request.scope))

    @api.exception_handler(ClientDisconnect)
    async def _gone(request: Request, error: ClientDisconnect) -> Response:
        metrics.cancelled(route_of(request.scope))
        return Response(status_code=CLIENT_CLOSED)
