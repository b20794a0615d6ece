"""`/stream/webrtc`: routes of live sessions. Any ingress replica serves any session."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from deployments.host.live_calls import LiveOffer
from deployments.host.live_commands import AddCandidates, End, Express, Interrupt, ReadStats
from pipeline.live.contracts import Drive
from pipeline.webrtc.turn_credentials import ANYBODY, servers_for
from serve_app.access.owned_ids import is_own, owned_id
from serve_app.http.access.access import caller_of
from serve_app.http.access.quotas import SESSIONS
from serve_app.http.body.disconnect import until_disconnect
from serve_app.http.live.fields import (
    candidates_body,
    candidates_of,
    express_body,
    looks_of,
    offer_body,
    offer_of,
)
from serve_app.http.live.host import LiveHost
from serve_app.http.live.socket import AUDIO_SOCKET_PATH
from serve_app.http.openapi import problems
from serve_app.http.services import Services

SHOWN_OF_ID: Final = 8
"""Number of characters of a session's id that are shown: they tell sessions apart, and give no access to any."""
_NEXT: Final = (
    ("trickle", "trickle_stream_webrtc__session_id__patch", "More ICE candidates."),
    (
        "speak",
        "speak_stream_webrtc__session_id__speak_post",
        "Drive push: a text or an audio file to speak. For PCM there is `audio_url`.",
    ),
    ("interrupt", "interrupt_stream_webrtc__session_id__interrupt_post", "Stop speaking."),
    ("express", "express_stream_webrtc__session_id__express_post", "Change what the face expresses."),
    ("events", "events_stream_webrtc__session_id__events_get", "What happens in the session."),
    (
        "publish",
        "publish_stream_webrtc__session_id__publish_post",
        "Send it to a WHIP ingest or an RTMP server as well.",
    ),
    ("watch", "view_stream_whep__session_id__post", "One more viewer (WHEP)."),
    ("end", "delete_stream_webrtc__session_id__delete", "End it."),
)
LIVE_PROBLEMS: Final = (400, "session_not_found", "session_ended", 500, 503)


class IceServerAnswer(BaseModel):
    """One entry of `RTCConfiguration.iceServers`."""

    urls: list[str] = Field(examples=[["turn:turn.example:3478?transport=udp"]])
    username: str | None = None
    credential: str | None = None


class IceServersAnswer(BaseModel):
    """STUN and TURN servers, to be given to `new RTCPeerConnection`."""

    ice_servers: list[IceServerAnswer]


class OfferAnswer(BaseModel):
    """A session that has begun."""

    sdp: str = Field(description="The SDP answer; every candidate of ours is in it.")
    type: str = Field("answer", examples=["answer"])
    session_id: str = Field(
        description="Names the session in all other routes.",
        examples=["b2c6e0d4a1f84f0c9a7d5e3b1c2d4f60"],
    )
    avatar_id: str = Field(description="Who speaks.", examples=["6f1c0e4b8a7d4c2f9e3b5a6d7c8e9f01"])
    fps: int = Field(description="Pictures per second.", examples=[25])
    width: int = Field(description="Pixels.", examples=[512])
    height: int = Field(examples=[512])
    drive: Drive = Field(examples=["mic"])
    listen: bool = Field(
        description="Whether the client's microphone is heard while pushed speech drives the face.", examples=[False]
    )
    echo: bool = Field(examples=[True])
    audio_url: str | None = Field(
        description="Address of the WebSocket that takes PCM, relative to this server; null for drive mic.",
        examples=["/stream/webrtc/b2c6e0d4a1f84f0c9a7d5e3b1c2d4f60/audio"],
    )


class InterruptAnswer(BaseModel):
    """What was cut off."""

    epoch: int = Field(description="Epoch of the session from now on; work of older epochs is dropped.", examples=[1])
    position_s: float = Field(description="Seconds of the utterance that were sent.", examples=[1.28])
    utterance_id: str | None = Field(description="null where nobody spoke.", examples=["u3"])


class ExpressAnswer(BaseModel):
    """A change that was taken in."""

    at_s: float = Field(description="Second of the session at which it begins.", examples=[12.28])


class SessionStats(BaseModel):
    """Numbers of one session; further ones may be added."""

    model_config = ConfigDict(extra="allow")

    session_id: str
    state: str = Field(examples=["speaking"])
    epoch: int
    fps_in: float = Field(description="Frames of voice (40 ms) per second that came in, over the last two seconds.")
    fps_out: float = Field(description="Pictures per second that were sent.")
    av_offset_ms: float
    queue_depths: dict[str, int]
    stage_calls: dict[str, int]
    packets_lost: int
    bitrate: int = Field(description="Bit rate of the video in bit/s.")
    frames_repeated: int
    quality: str = Field(
        "full", description="`reduced` while 15 % or more of two seconds' pictures come too late to be shown."
    )
    frames_dropped: int
    first_frame_ms: float | None = Field(description="Connected to first picture sent; null before that.")


class Percentiles(BaseModel):
    """Percentiles of a latency in milliseconds."""

    p50: float = Field(examples=[41.0])
    p95: float = Field(examples=[66.0])
    n: int = Field(description="Number of measurements.", examples=[20])


class SetTokens(BaseModel):
    """Tokens of one set of stages, one replica of each on one Ray node."""

    set_id: str = Field(description="The Ray node.")
    tokens: float | None = Field(description="Speaking sessions at 25 frames/s that it serves in time; null: no bound.")
    used: float = Field(description="Tokens that sessions hold.")


class AllStats(BaseModel):
    """All sessions of the cluster."""

    sessions: list[SessionStats]
    capacity: int = Field(description="Sessions that fit now: tokens of the GPUs, room of the hosts.", examples=[8])
    active: int = Field(examples=[3])
    refused: int = Field(0, description="Offers that found no room.")
    sets: list[SetTokens] = Field([], description="Tokens of every set of stages.")
    ended: dict[str, int] = Field(default_factory=dict, description="Sessions that are over, by reason.")
    first_frame_ms: Percentiles | None = Field(
        None, description="Connected to first picture sent, of present and recent sessions; null before the first one."
    )


def live_routes(services: Services, host: LiveHost, wall_clock: Callable[[], float] = time.time) -> APIRouter:
    """Make the routes that offer, trickle, tell statistics, interrupt and end; `wall_clock` gives Unix seconds."""
    router = APIRouter(prefix="/stream/webrtc", tags=["live"])
    settings = services.settings

    @router.get("/ice-servers", summary="STUN and TURN servers to use")
    async def ice_servers(request: Request) -> IceServersAnswer:
        """The list is empty unless the operator configured servers. Ask before each connection: credentials may end soon."""
        servers = servers_for(settings.rtc, wall_clock(), caller_of(request.scope).owner or ANYBODY)
        return IceServersAnswer(
            ice_servers=[
                IceServerAnswer(
                    urls=list(one.urls),
                    username=one.username or None,
                    credential=one.credential.get_secret_value() or None,
                )
                for one in servers
            ]
        )

    @router.post(
        "/offer",
        summary="Begin a live session",
        responses=_links() | problems(400, 404, 406, 408, "avatar_bundle_schema", 413, 415, 422, 500, 503),
        openapi_extra=offer_body(settings),
    )
    async def offer(request: Request, response: Response) -> OfferAnswer:
        """Begins a session in which voice and video flow both ways: H.264 and Opus come back over the answer's transport.

        `drive: "mic"` lets the client's microphone drive the face; `"push"` waits for `/speak` or the WebSocket at `audio_url`;
        with `listen` the silent presenter then hears the microphone. `"talk"` is `"push"` that listens: the service's agent answers
        what the client says, and stops when the client speaks.
        Over capacity the answer is 503 with Retry-After, and nothing is left behind.
        """
        with services.budget.hold() as hold:
            asked = await offer_of(request, settings, hold)
        caller = caller_of(request.scope)
        avatar_id = await services.presenter(asked.avatar_id, caller)
        wanted = LiveOffer(
            session_id=owned_id(uuid.uuid4().hex, caller.owner),
            sdp=asked.sdp,
            avatar_id=avatar_id,
            fps=asked.fps,
            drive=asked.drive,
            echo=asked.echo,
            seed=asked.seed,
            publish=asked.publish,
            looks=asked.looks,
            listens=asked.listens,
        )
        async with services.quotas.one_more(SESSIONS, caller, lambda: session_ids(host)):
            answer = await until_disconnect(
                request.receive, host.offer(wanted)
            )  # a client that is gone needs no session
        response.headers["Location"] = f"/stream/webrtc/{answer.session_id}"
        return OfferAnswer(
            sdp=answer.sdp,
            session_id=answer.session_id,
            avatar_id=answer.avatar_id,
            fps=answer.fps,
            width=answer.width,
            height=answer.height,
            drive=asked.drive,
            listen=asked.listens,
            echo=asked.echo,
            audio_url=AUDIO_SOCKET_PATH.format(session_id=answer.session_id) if asked.drive is not Drive.MIC else None,
        )

    @router.get("/stats", summary="All live sessions", responses=problems(500, 503))
    async def stats(request: Request) -> AllStats:
        """Covers the sessions of all hosts, including draining ones; where keys are needed, the caller's own ones alone."""
        caller = caller_of(request.scope)
        hosts, tokens = await asyncio.gather(host.live_stats(), host.tokens())
        ended: dict[str, int] = {}
        for one in hosts:
            for reason, count in one.ended.items():
                ended[reason] = ended.get(reason, 0) + count
        sessions = [_session(entry) for one in hosts for entry in one.sessions]
        capacity = math.floor(min(sum(one.capacity for one in hosts), len(sessions) + tokens.free))
        sessions = [one for one in sessions if is_own(one.session_id, caller)]
        if not settings.live.stats_ids:
            sessions = [one.model_copy(update={"session_id": one.session_id[:SHOWN_OF_ID]}) for one in sessions]
        if not caller.admin:
            return AllStats(sessions=sessions, capacity=capacity, active=len(sessions))
        return AllStats(
            sessions=sessions,
            capacity=capacity,
            active=len(sessions),
            refused=sum(one.refused for one in hosts) + tokens.refused,
            sets=[
                SetTokens(set_id=name, tokens=None if math.isinf(there) else there, used=tokens.used[name])
                for name, there in tokens.tokens.items()
            ],
            ended=ended,
            first_frame_ms=_percentiles([value for one in hosts for value in one.first_frames_ms]),
        )

    @router.patch(
        "/{session_id}",
        status_code=204,
        summary="More ICE candidates",
        responses=problems(*LIVE_PROBLEMS, 408, 413, 415, 422),
        openapi_extra=candidates_body(),
    )
    async def trickle(session_id: str, request: Request) -> Response:
        """Takes JSON `{"candidates": [{candidate, sdpMid, sdpMLineIndex}, ...]}`, or `application/trickle-ice-sdpfrag`.

        An empty list says that no more come. An ICE restart is not possible: make a new offer.
        """
        with services.budget.hold() as hold:
            found = await candidates_of(request, settings, hold)
        await host.handle(AddCandidates(session_id, tuple(found)))
        return Response(status_code=204)

    @router.get(
        "/{session_id}/stats",
        summary="One live session",
        responses=problems("session_not_found", "session_ended", 500, 503),
    )
    async def session_stats(session_id: str) -> SessionStats:
        """Tells the session's state, rates, queues, offsets, losses and latency percentiles."""
        found = await host.handle(ReadStats(session_id))
        return _session(found)

    @router.post(
        "/{session_id}/interrupt",
        summary="Stop speaking",
        responses=problems("session_not_found", "session_ended", 500, 503),
    )
    async def interrupt(session_id: str) -> InterruptAnswer:
        """Sound and mouth stop, and queued speech is dropped. Where the face is silent, nothing happens and the answer says so."""
        found = await host.handle(Interrupt(session_id))
        return InterruptAnswer(epoch=found.epoch, position_s=found.position_s, utterance_id=found.utterance_id)

    @router.post(
        "/{session_id}/express",
        summary="Change what the face expresses",
        responses=problems(*LIVE_PROBLEMS, 408, 413, 415, 422),
        openapi_extra=express_body(),
    )
    async def express(session_id: str, request: Request) -> ExpressAnswer:
        """The change begins within 200 ms, in speech and in silence, and holds until the next one.

        What is left out stays as it is. `expressions` is a timeline from the change on; what an earlier call planned is dropped.
        """
        with services.budget.hold() as hold:
            looks = await looks_of(request, settings, hold)
        return ExpressAnswer(at_s=await host.handle(Express(session_id, looks)))

    @router.delete(
        "/{session_id}",
        summary="End a live session",
        responses=problems("session_not_found", "session_ended", 500, 503),
    )
    async def delete(session_id: str) -> Response:
        """Answers when everything that the session held is free. A second call is answered with 410."""
        await host.handle(End(session_id))
        return Response(status_code=200)

    return router


async def session_ids(host: LiveHost) -> list[str]:
    """Ids of all sessions of the cluster."""
    return [str(entry["session_id"]) for one in await host.live_stats() for entry in one.sessions]


def _links() -> dict[int | str, dict[str, Any]]:
    """What to do with the answer of an offer, as OpenAPI links."""
    session = {"parameters": {"session_id": "$response.body#/session_id"}}
    described = {name: session | {"operationId": operation, "description": text} for name, operation, text in _NEXT}
    return {200: {"links": described}}


def _percentiles(values: Sequence[float]) -> Percentiles | None:
    if not values:
        return None
    p50, p95 = np.percentile(values, (50, 95))
    return Percentiles(p50=round(float(p50), 1), p95=round(float(p95), 1), n=len(values))


def _session(entry: Mapping[str, Any]) -> SessionStats:
    return SessionStats.model_validate(dict(entry))
