"""Every error as RFC 9457 problem details: the one place where an error becomes an HTTP status and a text for people."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from deployments.live_errors import SessionEndedError
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.live.contracts import EndReason
from serve_app.http.errors import RangeError

PROBLEM_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "/problems/"
_SHOWN: Final = 200
_ADVICE: Final = 600
"""Sentences of ours that say what to do are longer than anything from outside that they may quote."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class ProblemKind(NamedTuple):
    """What is fixed about one kind of problem.

    Attributes:
        status: HTTP status.
        title: Short, the same every time.
        detail: Said to callers instead of the error's own words, which may name our paths and addresses; empty for errors of the
            caller's, whose own words help.
    """

    status: int
    title: str
    detail: str = ""


_LATER: Final = "Send the same request again a little later."
_OURS: Final = "This is our failure, not yours. Tell the operator the request_id; the server's log has the reason."

KINDS: Final[dict[str, ProblemKind]] = {
    # the request
    "invalid_input": ProblemKind(422, "A field has a value that cannot work"),
    "invalid_shape": ProblemKind(422, "A field has a value that cannot work"),
    "missing_field": ProblemKind(422, "A field is missing"),
    "unknown_field": ProblemKind(422, "A field is not known"),
    "duplicate_field": ProblemKind(422, "A field came more than once"),
    "conflicting_fields": ProblemKind(422, "Two fields exclude each other"),
    "misplaced_field": ProblemKind(422, "A field is in the wrong place"),
    "field_too_large": ProblemKind(413, "A field is too large"),
    "body_too_large": ProblemKind(413, "The request is too large"),
    "upload_too_slow": ProblemKind(408, "The upload is too slow"),
    "body_malformed": ProblemKind(400, "The body cannot be read"),
    "unsupported_content_type": ProblemKind(415, "The content type is not supported"),
    "range_not_satisfiable": ProblemKind(416, "The byte range lies outside the file"),
    "bad_request": ProblemKind(400, "The request cannot be read"),
    "not_found": ProblemKind(404, "There is nothing at this address"),
    "method_not_allowed": ProblemKind(405, "The address does not take this method"),
    # the speech
    "audio_invalid": ProblemKind(422, "The speech cannot be used"),
    "audio_unreadable": ProblemKind(422, "The speech cannot be read"),
    "audio_no_stream": ProblemKind(422, "The file has no sound"),
    "audio_empty": ProblemKind(422, "The speech is empty"),
    "audio_too_long": ProblemKind(422, "The speech is too long"),
    "audio_too_large": ProblemKind(413, "The speech file is too large"),
    "audio_unsupported": ProblemKind(422, "The kind of speech file is not supported"),
    # the portrait
    "portrait_unreadable": ProblemKind(422, "The picture cannot be read"),
    "portrait_unsupported": ProblemKind(422, "The kind of picture is not supported"),
    "portrait_animated": ProblemKind(422, "The picture is animated"),
    "portrait_too_large": ProblemKind(413, "The picture is too large"),
    "portrait_too_small": ProblemKind(422, "The picture is too small"),
    "portrait_no_face": ProblemKind(422, "The picture shows no face"),
    "portrait_not_a_face": ProblemKind(422, "The picture shows no human face"),
    "portrait_two_faces": ProblemKind(422, "The picture shows more than one face"),
    "portrait_turned_away": ProblemKind(422, "The face is turned away"),
    "portrait_cut_off": ProblemKind(422, "The face is cut off"),
    "portrait_eyes_closed": ProblemKind(422, "The eyes are closed"),
    "portrait_video_too_long": ProblemKind(422, "The video is too long"),
    # what is kept
    "avatar_not_found": ProblemKind(404, "There is no such presenter"),
    "result_not_found": ProblemKind(404, "There is no such result"),
    "result_expired": ProblemKind(410, "The result is not kept any more"),
    "result_too_large": ProblemKind(413, "The result is too large to be kept"),
    "avatars_full": ProblemKind(
        507,
        "No more presenters can be registered",
        "Use a registered presenter, or remove those that nobody needs: DELETE /avatars/{id}. Temporary ones make room by "
        "themselves as soon as nobody has used them for some minutes.",
    ),
    # live sessions
    "session_not_found": ProblemKind(404, "There is no such live session"),
    "session_lost": ProblemKind(404, "The live session was lost"),
    "session_ended": ProblemKind(410, "The live session has ended"),
    "no_common_codec": ProblemKind(406, "The offer has no codec that this service sends"),
    "ice_restart": ProblemKind(422, "An ICE restart is not possible"),
    "unknown_viewer": ProblemKind(404, "There is no such viewer"),
    "peer_closed": ProblemKind(410, "The connection has ended"),
    "too_many_viewers": ProblemKind(503, "The session has all the viewers that it may have", _LATER),
    "wrong_drive": ProblemKind(409, "The session is driven by something else"),
    "audio_in_use": ProblemKind(409, "Somebody else already speaks in this session"),
    "queue_full": ProblemKind(409, "As much speech waits in this session as it takes"),
    "no_capacity": ProblemKind(503, "There is no room for one more live session", _LATER),
    # later
    "overloaded": ProblemKind(503, "The service has as much work as it takes", _LATER),
    "not_ready": ProblemKind(503, "The service is not ready yet", _LATER),
    "stage_lost": ProblemKind(503, "A part of the service went away while it worked", _LATER),
    "deadline_exceeded": ProblemKind(503, "The work took too long", _LATER),
    "store_unreachable": ProblemKind(503, "The store of presenters or results does not answer", _LATER),
    "weights_download": ProblemKind(
        503,
        "The service has no models for portraits yet",
        "Use a registered presenter or the default one, or ask the operator to run: liveanchor weights pull face",
    ),
    # ours
    "internal_error": ProblemKind(500, "Something went wrong here", _OURS),
}


class Problem(BaseModel):
    """An error as every route answers it."""

    model_config = ConfigDict(json_schema_extra={"description": "RFC 9457 problem details."})

    type: str = Field(description="Stable kind of problem.", examples=["/problems/audio_unreadable"])
    title: str = Field(description="The kind in words; the same every time.", examples=["The speech cannot be read"])
    status: int = Field(description="The HTTP status.", examples=[422])
    detail: str = Field(
        description="What happened and what to do.",
        examples=["audio: got bytes that no audio format matches (allowed: an audio file (WAV, FLAC, MP3, ...))"],
    )
    code: str = Field(description="Last part of `type`.", examples=["audio_unreadable"])
    request_id: str = Field(description="Name it when asking the operator.", examples=["b2c6e0d4a1f84f0c9a7d"])
    field: str | None = Field(None, description="Which field is at fault.", examples=["audio"])
    got: str | None = Field(None, description="What came, shortened.", examples=["bytes that no audio format matches"])
    allowed: str | None = Field(None, description="What would be accepted.", examples=["an audio file (WAV, ...)"])
    retry_after_s: int | None = Field(None, description="Seconds to wait before trying again.", examples=[5])
    reason: EndReason | None = Field(None, description="Why a live session ended.", examples=[EndReason.IDLE_TTL])


def code_of(error: LiveAnchorError) -> str:
    """The code that callers are told; what the table does not know is the caller's when its class says so, else ours."""
    if error.code in KINDS or isinstance(error, InvalidInputError):
        return error.code
    return "not_ready" if error.retryable else "internal_error"


def kind_of(error: LiveAnchorError) -> ProblemKind:
    """The kind of an error."""
    code = code_of(error)
    return KINDS.get(code) or ProblemKind(422, code.replace("_", " ").capitalize())


def shown(text: str, limit: int = _SHOWN) -> str:
    """Text from outside, safe to be shown: no control or direction characters, not too long."""
    clean = _CONTROL.sub("�", text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def problem_response(error: LiveAnchorError, request_id: str, retry_after_s: float) -> JSONResponse:
    """The answer to an error of ours.

    Args:
        error: Already out of Ray's wrapper.
        request_id: Of the request.
        retry_after_s: What a 503 tells callers to wait.
    """
    kind = kind_of(error)
    headers: dict[str, str] = {}
    extra: dict[str, Any] = {}
    if isinstance(error, InvalidInputError):
        extra = {"field": shown(error.field), "got": shown(error.got), "allowed": error.allowed}
    if isinstance(error, SessionEndedError):
        extra["reason"] = error.reason
    if isinstance(error, RangeError):
        headers["Content-Range"] = f"bytes */{error.size}"
    if kind.status == 503:
        extra["retry_after_s"] = max(1, round(retry_after_s))
        headers["Retry-After"] = str(extra["retry_after_s"])
    detail = kind.detail or _words(error)
    return _response(code_of(error), kind, detail, request_id, headers, extra)


def code_of_routing(error: HTTPException) -> str:
    """The code where routing itself says no."""
    return {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")


def http_problem_response(error: HTTPException, request_id: str) -> JSONResponse:
    """The answer where routing itself says no: 404, 405, 400."""
    code = code_of_routing(error)
    kind = KINDS[code]._replace(status=error.status_code)
    headers = dict(error.headers or {})
    detail = {
        "not_found": "No route has this address. The list of routes is at /docs.",
        "method_not_allowed": f"Allowed here: {headers.get('allow') or headers.get('Allow') or 'see /docs'}.",
    }.get(code, shown(str(error.detail)))
    return _response(code, kind, detail, request_id, headers, {})


def failure_response(request_id: str) -> JSONResponse:
    """The answer to an error that nobody foresaw."""
    return _response("internal_error", KINDS["internal_error"], _OURS, request_id, {}, {})


def _words(error: LiveAnchorError) -> str:
    if isinstance(error, InvalidInputError):
        said = shown(error.detail, _ADVICE) if error.detail else f"got {shown(error.got)}"
        return f"{shown(error.field)}: {said} (allowed: {error.allowed})"
    return shown(str(error))


def _response(
    code: str, kind: ProblemKind, detail: str, request_id: str, headers: dict[str, str], extra: dict[str, Any]
) -> JSONResponse:
    problem = Problem(
        type=TYPE_PREFIX + code,
        title=kind.title,
        status=kind.status,
        detail=detail,
        code=code,
        request_id=request_id,
        **extra,
    )
    response = JSONResponse(problem.model_dump(exclude_none=True), kind.status, headers, media_type=PROBLEM_TYPE)
    response.headers["Cache-Control"] = "no-store"
    return response
