"""`/stream/whep/{id}`: routes for more viewers of a live session (WHEP); its video is encoded once for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from deployments.host.live_commands import AddViewer, AddViewerCandidates, RemoveViewer
from kernels.errors import InvalidInputError
from pipeline.webrtc.ice import link_headers
from pipeline.webrtc.turn_credentials import ANYBODY, servers_for
from serve_app.http.access.access import caller_of
from serve_app.http.body.disconnect import until_disconnect
from serve_app.http.body.pieces import content_type
from serve_app.http.live.fields import SDP, candidates_body, candidates_of, check_sdp, read_small
from serve_app.http.live.host import LiveHost
from serve_app.http.openapi import problems
from serve_app.http.problems.errors import BodyMalformedError, UnsupportedBodyError
from serve_app.http.services import Services

_METHODS: Final = "POST, OPTIONS"


def whep_routes(services: Services, host: LiveHost, wall_clock: Callable[[], float] = time.time) -> APIRouter:
    """Make the routes that begin and end watching; `wall_clock` gives Unix seconds."""
    router = APIRouter(prefix="/stream/whep", tags=["live"])
    settings = services.settings

    @router.options("/{session_id}", include_in_schema=False)
    async def options(session_id: str) -> Response:
        return Response(status_code=200, headers={"Accept-Post": SDP, "Allow": _METHODS})

    @router.post(
        "/{session_id}",
        status_code=201,
        response_class=Response,
        summary="Watch a live session (WHEP)",
        responses=_answer() | problems(400, "session_not_found", 406, 408, "session_ended", 413, 415, 422, 500, 503),
        openapi_extra={"requestBody": {"required": True, "content": {SDP: {"schema": {"type": "string"}}}}},
    )
    async def view(session_id: str, request: Request) -> Response:
        """Takes an SDP offer (recvonly) and answers with SDP. DELETE the address in `Location` to stop watching."""
        if (kind := content_type(request)) != SDP:
            raise UnsupportedBodyError("Content-Type", kind or "none", SDP)
        with services.budget.hold() as hold:
            body = await read_small(request, settings, hold)
        try:
            sdp = check_sdp(body.decode("utf-8"))
            viewer = await until_disconnect(request.receive, host.handle(AddViewer(session_id, sdp)))
        except UnicodeDecodeError as error:
            raise BodyMalformedError("body", "no UTF-8", "an SDP offer") from error
        except InvalidInputError as error:
            if error.code != InvalidInputError.code:  # no common codec
                raise
            raise BodyMalformedError("body", error.got, error.allowed) from error  # the body is the offer
        response = Response(viewer.sdp, 201, {"Location": f"/stream/whep/{session_id}/{viewer.viewer_id}"}, SDP)
        servers = servers_for(settings.rtc, wall_clock(), caller_of(request.scope).owner or ANYBODY)
        for link in link_headers(servers):
            response.headers.append("Link", link)
        return response

    @router.delete(
        "/{session_id}/{viewer_id}",
        status_code=200,
        summary="Stop watching",
        responses=problems("session_not_found", "session_ended", 500, 503),
    )
    async def leave(session_id: str, viewer_id: str) -> Response:
        """Lets the viewer go. It is no error if the viewer is gone already."""
        await host.handle(RemoveViewer(session_id, viewer_id))
        return Response(status_code=200)

    @router.patch(
        "/{session_id}/{viewer_id}",
        status_code=204,
        summary="More ICE candidates of a viewer",
        responses=problems(400, "session_not_found", 408, "session_ended", 413, 415, 422, 500, 503),
        openapi_extra=candidates_body(),
    )
    async def trickle(session_id: str, viewer_id: str, request: Request) -> Response:
        """Takes `application/trickle-ice-sdpfrag` (RFC 8840), or JSON as for the session. For an ICE restart make a new offer."""
        with services.budget.hold() as hold:
            found = await candidates_of(request, settings, hold)
        await host.handle(AddViewerCandidates(session_id, viewer_id, tuple(found)))
        return Response(status_code=204)

    return router


def _answer() -> dict[int | str, dict[str, Any]]:
    return {201: {"description": "The SDP answer.", "content": {SDP: {"schema": {"type": "string"}}}}}
