"""`/stream/webrtc/{id}/publish`: send a live session to ingests of others (WHIP, RTMP); its encode is that of all viewers."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from deployments.host.live_commands import Publish, ReadPublications, Unpublish
from pipeline.publish.publication_stats import PublicationState, PublicationStats
from serve_app.http.body.disconnect import until_disconnect
from serve_app.http.body.json_body import parse_json
from serve_app.http.body.pieces import JSON, FormShape, content_type, refuse_query
from serve_app.http.live.fields import read_small
from serve_app.http.live.host import LiveHost
from serve_app.http.live.targets import TARGET_KEYS, TARGET_SCHEMA, target_of
from serve_app.http.openapi import problems
from serve_app.http.problems.errors import UnsupportedBodyError
from serve_app.http.services import Services

_SHAPE: Final = FormShape((), TARGET_KEYS)


class PublicationAnswer(BaseModel):
    """A session on its way to an ingest."""

    id: str = Field(description="Names it in the address that ends it.", examples=["8f0c2a61d3b94e57"])
    target: str = Field(
        description="The ingest; path and token are secret and left out.", examples=["https://ingest.example/..."]
    )
    state: PublicationState = Field(
        description="`live`: media flow. `waiting`: lost or not there yet, tried again soon. `failed`: refused for good.",
        examples=[PublicationState.LIVE],
    )
    attempts: int = Field(description="Connections that were tried.", examples=[1])
    error: str = Field(description="Why the last connection failed or ended; empty where none did.", examples=[""])
    live_s: float | None = Field(description="Seconds since the connection stands; null without one.", examples=[12.4])
    fps_out: float = Field(description="Pictures sent in the last second.", examples=[25.0])
    bitrate: int = Field(description="Bit rate of the video in bit/s.", examples=[1_800_000])
    packets_lost: int = Field(description="Video packets that the ingest says it lost.", examples=[0])


class PublicationsAnswer(BaseModel):
    """All ingests that a session is sent to."""

    publications: list[PublicationAnswer]


def publish_routes(services: Services, host: LiveHost) -> APIRouter:
    """Make the routes that begin, list and end publishing."""
    router = APIRouter(prefix="/stream/webrtc/{session_id}/publish", tags=["live"])
    settings = services.settings

    @router.post(
        "",
        status_code=201,
        summary="Send a live session to a WHIP ingest or an RTMP server",
        responses=problems(
            400,
            "session_not_found",
            408,
            "session_ended",
            413,
            415,
            "too_many_publications",
            "ingest_refused",
            500,
            503,
        ),
        openapi_extra={"requestBody": {"required": True, "content": {JSON: {"schema": TARGET_SCHEMA}}}},
    )
    async def publish(session_id: str, request: Request, response: Response) -> PublicationAnswer:
        """Answers when the ingest has taken or refused the session, and after 8 s in any case.

        An ingest that does not answer, or is lost later, is tried again after 1, 2, 4 ... 30 s until the session ends. One that
        refuses the first offer is not: the answer is 422 and names the field.
        """
        refuse_query(request, _SHAPE)
        if (kind := content_type(request)) != JSON:
            raise UnsupportedBodyError("Content-Type", kind or "none", JSON)
        with services.budget.hold() as hold:
            form = parse_json(await read_small(request, settings, hold), _SHAPE)
        target = target_of(form.values, settings)
        begun = await until_disconnect(request.receive, host.handle(Publish(session_id, target)))
        response.headers["Location"] = f"/stream/webrtc/{session_id}/publish/{begun.publication_id}"
        return _answer(begun)

    @router.get("", summary="Where a live session is sent", responses=_gone())
    async def publications(session_id: str) -> PublicationsAnswer:
        """Lists all ingests of the session, including those that refused it."""
        return PublicationsAnswer(
            publications=[_answer(one) for one in await host.handle(ReadPublications(session_id))]
        )

    @router.delete("/{publication_id}", summary="Send a live session to an ingest no longer", responses=_gone())
    async def unpublish(session_id: str, publication_id: str) -> Response:
        """Tells the ingest, and answers when everything is free. It is no error if the publication has ended already."""
        await host.handle(Unpublish(session_id, publication_id))
        return Response(status_code=200)

    return router


def _gone() -> dict[int | str, dict[str, Any]]:
    return problems("session_not_found", "session_ended", 500, 503)


def _answer(one: PublicationStats) -> PublicationAnswer:
    peer = one.peer
    return PublicationAnswer(
        id=one.publication_id,
        target=one.target,
        state=one.state,
        attempts=one.attempts,
        error=one.error,
        live_s=None if one.live_s is None else round(one.live_s, 1),
        fps_out=0.0 if peer is None else round(peer.fps_out, 2),
        bitrate=0 if peer is None else round(1000 * peer.bitrate_kbps),
        packets_lost=0 if peer is None else peer.packets_lost,
    )
