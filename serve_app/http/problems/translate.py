"""Every error as RFC 9457 problem details: the one place where an error becomes an HTTP status and a text for people."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from deployments.host.live_errors import SessionEndedError
from deployments.video_jobs.errors import VideoNotReadyError
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.live.contracts import EndReason
from serve_app.access.keys import KEY_PREFIX, TOKEN_PREFIX
from serve_app.http.problems.errors import AccessError, QuotaExceededError, RangeError, ScopeMissingError
from serve_app.http.problems.faults import FAULTS
from serve_app.http.problems.kinds import KINDS, OURS, TYPE_PREFIX, ProblemKind

PROBLEM_TYPE: Final = "application/problem+json"
_SHOWN: Final = 200
_ADVICE: Final = 600
"""Sentences of ours that say what to do are longer than anything from outside that they may quote."""
_SECRET: Final = re.compile(f"({KEY_PREFIX}|{TOKEN_PREFIX})[0-9A-Za-z._-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


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
    missing_scope: str | None = Field(None, description="Scope that a key needs for this.", examples=["live"])
    violated_policies: list[str] | None = Field(
        None, serialization_alias="violated-policies", description="Limits that were reached.", examples=[["requests"]]
    )


def code_of(error: LiveAnchorError) -> str:
    """The code that callers are told; what the table does not know is the caller's when its class says so, else ours."""
    if error.code in FAULTS:
        return "internal_error"
    if error.code in KINDS or isinstance(error, InvalidInputError):
        return error.code
    return "not_ready" if error.retryable else "internal_error"


def kind_of(error: LiveAnchorError) -> ProblemKind:
    """The kind of an error."""
    code = code_of(error)
    return KINDS.get(code) or ProblemKind(422, code.replace("_", " ").capitalize(), "")


def shown(text: str, limit: int = _SHOWN) -> str:
    """Text from outside, safe to be shown and logged: no control or direction characters, no keys, not too long."""
    clean = _CONTROL.sub("�", _SECRET.sub(r"\1...", text))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def problem_of(error: LiveAnchorError, request_id: str) -> Problem:
    """An error of ours as a document.

    Args:
        error: Already out of Ray's wrapper.
        request_id: Id of the request.
    """
    kind, code = kind_of(error), code_of(error)
    extra: dict[str, Any] = {}
    if isinstance(error, InvalidInputError) and kind.status < 500:
        extra = {"field": shown(error.field), "got": shown(error.got), "allowed": error.allowed}
    if isinstance(error, SessionEndedError):
        extra["reason"] = error.reason
    if isinstance(error, ScopeMissingError):
        extra["missing_scope"] = error.scope
    if isinstance(error, QuotaExceededError):
        extra |= {"retry_after_s": error.retry_after_s, "violated_policies": [error.policy]}
    return _problem(code, kind, kind.detail or _words(error), request_id, extra)


def problem_response(error: LiveAnchorError, request_id: str, retry_after_s: float) -> JSONResponse:
    """The answer to an error of ours.

    Args:
        error: Already out of Ray's wrapper.
        request_id: Id of the request.
        retry_after_s: What a 503, and a question that came too early, tells callers to wait.
    """
    problem = problem_of(error, request_id)
    headers: dict[str, str] = {}
    if isinstance(error, RangeError):
        headers["Content-Range"] = f"bytes */{error.size}"
    if isinstance(error, AccessError):
        headers["WWW-Authenticate"] = error.challenge
    if problem.status == 503 or isinstance(error, VideoNotReadyError):
        problem.retry_after_s = max(1, round(retry_after_s))
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(problem.retry_after_s)
    return _response(problem, headers)


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
    return _response(_problem(code, kind, detail, request_id, {}), headers)


def failure_response(request_id: str) -> JSONResponse:
    """The answer to an error that was not foreseen."""
    return _response(_problem("internal_error", KINDS["internal_error"], OURS, request_id, {}), {})


def _words(error: LiveAnchorError) -> str:
    if isinstance(error, InvalidInputError):
        said = shown(error.detail, _ADVICE) if error.detail else f"got {shown(error.got)}"
        return f"{shown(error.field)}: {said} (allowed: {error.allowed})"
    return shown(str(error))


def _problem(code: str, kind: ProblemKind, detail: str, request_id: str, extra: dict[str, Any]) -> Problem:
    return Problem(
        type=TYPE_PREFIX + code,
        title=kind.title,
        status=kind.status,
        detail=detail,
        code=code,
        request_id=request_id,
        **extra,
    )


def _response(problem: Problem, headers: dict[str, str]) -> JSONResponse:
    content = problem.model_dump(exclude_none=True, by_alias=True)
    response = JSONResponse(content, problem.status, headers, media_type=PROBLEM_TYPE)
    response.headers["Cache-Control"] = "no-store"
    return response
