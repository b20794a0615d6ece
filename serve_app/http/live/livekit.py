"""`/stream/livekit`: sessions that join a LiveKit room and speak what its agent sends."""

from __future__ import annotations

import uuid
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from deployments.host.live_calls import LiveOffer
from deployments.host.live_commands import End
from pipeline.live.contracts import Drive
from pipeline.livekit.invitation import RoomInvitation, read_invitation
from serve_app.access.owned_ids import owned_id
from serve_app.http.access.access import caller_of
from serve_app.http.access.quotas import SESSIONS
from serve_app.http.body.disconnect import until_disconnect
from serve_app.http.body.fields import SEED_SCHEMA, avatar_id_field, choice_field, seed_field, text_field
from serve_app.http.body.json_body import parse_json
from serve_app.http.body.pieces import JSON, FormShape, RawForm, content_type, refuse_query
from serve_app.http.live.fields import LIVE_FPS, read_small
from serve_app.http.live.host import LiveHost
from serve_app.http.live.routes import session_ids
from serve_app.http.openapi import problems
from serve_app.http.problems.errors import MissingFieldError, UnsupportedBodyError
from serve_app.http.services import Services

ROOM_SHAPE: Final = FormShape((), ("url", "token", "avatar_id", "fps", "seed"))


class RoomAnswer(BaseModel):
    """A session that has joined its room."""

    session_id: str = Field(
        description="Names the session in all routes of live sessions.", examples=["b2c6e0d4a1f84f0c"]
    )
    room: str = Field(examples=["support-1"])
    identity: str = Field(description="Who the presenter is in the room.", examples=["liveanchor-avatar"])
    avatar_id: str = Field(description="Who speaks.", examples=["6f1c0e4b8a7d4c2f9e3b5a6d7c8e9f01"])
    fps: int = Field(description="Pictures per second.", examples=[25])
    width: int = Field(description="Pixels.", examples=[512])
    height: int = Field(examples=[512])


def livekit_routes(services: Services, host: LiveHost) -> APIRouter:
    """Make the routes that begin and end."""
    router = APIRouter(prefix="/stream/livekit", tags=["live"])
    settings = services.settings

    @router.post(
        "",
        status_code=202,
        summary="Let a presenter join a LiveKit room",
        responses=problems(
            400, 404, 408, "avatar_bundle_schema", 413, 415, 422, 500, "livekit_missing", "room_unreachable", 503
        ),
        openapi_extra=_body(),
    )
    async def join(request: Request, response: Response) -> RoomAnswer:
        """The session publishes pictures and voice in the room, and speaks what the agent there sends by data streams.

        It ends when the agent leaves, when the room is over, or by DELETE. `url` must be among the hosts that the operator allows.
        All routes of live sessions but those of the client's own connection work with its id. Over capacity the answer is 503
        with Retry-After; asking twice makes two sessions.
        """
        with services.budget.hold() as hold:
            refuse_query(request, ROOM_SHAPE)
            if (kind := content_type(request)) != JSON:
                raise UnsupportedBodyError("Content-Type", kind or "none", JSON)
            form = parse_json(await read_small(request, settings, hold), ROOM_SHAPE)
        room = _invitation(form, settings.live.livekit_hosts)
        caller = caller_of(request.scope)
        avatar_id = await services.presenter(avatar_id_field(form), caller)
        wanted = LiveOffer(
            session_id=owned_id(uuid.uuid4().hex, caller.owner),
            sdp="",
            avatar_id=avatar_id,
            fps=choice_field(form, "fps", LIVE_FPS, 25 if settings.session.fps == 25 else 50),
            drive=Drive.PUSH,
            echo=True,
            seed=seed_field(form),
            room=room,
        )
        async with services.quotas.one_more(SESSIONS, caller, lambda: session_ids(host)):
            answer = await until_disconnect(request.receive, host.offer(wanted))
        response.headers["Location"] = f"/stream/livekit/{answer.session_id}"
        return RoomAnswer(
            session_id=answer.session_id,
            room=room.room,
            identity=room.identity,
            avatar_id=answer.avatar_id,
            fps=answer.fps,
            width=answer.width,
            height=answer.height,
        )

    @router.delete(
        "/{session_id}",
        summary="Let a presenter leave its room",
        responses=problems("session_not_found", "session_ended", 500, 503),
    )
    async def leave(session_id: str) -> Response:
        """Answers when everything that the session held is free. A second call is answered with 410."""
        await host.handle(End(session_id))
        return Response(status_code=200)

    return router


def _invitation(form: RawForm, hosts: tuple[str, ...]) -> RoomInvitation:
    found = {}
    for name, allowed in (("url", "the address of a LiveKit server"), ("token", "a LiveKit access token")):
        found[name] = text_field(form, name, allowed)
        if not found[name]:
            raise MissingFieldError(name, "nothing", allowed)
    return read_invitation(str(found["url"]), str(found["token"]), hosts)


def _body() -> dict[str, Any]:
    """Describe the body, for `openapi_extra=`."""
    properties = {
        "url": {"type": "string", "description": "LiveKit server, such as wss://live.example."},
        "token": {
            "type": "string",
            "description": "Access token of the presenter: `roomJoin`, `room`, an identity, the kind agent, and the attribute "
            "`lk.publish_on_behalf` with the agent's identity. LiveKit checks it.",
        },
        "avatar_id": {"type": "string", "description": "Id or name of a presenter; the default one when left out."},
        "fps": {"type": "integer", "enum": list(LIVE_FPS), "description": "Pictures per second."},
        "seed": SEED_SCHEMA,
    }
    schema = {"type": "object", "required": ["url", "token"], "additionalProperties": False, "properties": properties}
    example = {"url": "wss://live.example", "token": "eyJ...", "fps": 25}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema, "example": example}}}}
