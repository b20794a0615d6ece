"""What OpenAPI says beyond what FastAPI finds out itself: bodies, binary answers, problem details, examples."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from serve_app.http.access.rules import scopes_for
from serve_app.http.body.pieces import JSON, MULTIPART
from serve_app.http.files.schema import job_schema
from serve_app.http.live.socket import AUDIO_SOCKET_PATH, audio_socket_description, live_description
from serve_app.http.problems.kinds import KINDS, TYPE_PREFIX
from serve_app.http.problems.translate import PROBLEM_TYPE, Problem
from serve_app.http.settings import ApiSettings

_EXAMPLE_CODES: Final = {
    400: "body_malformed",
    401: "key_missing",
    403: "scope_missing",
    404: "avatar_not_found",
    406: "no_common_codec",
    408: "upload_too_slow",
    409: "wrong_drive",
    410: "result_expired",
    413: "body_too_large",
    415: "unsupported_content_type",
    416: "range_not_satisfiable",
    422: "invalid_input",
    429: "quota_exceeded",
    500: "internal_error",
    503: "overloaded",
    507: "avatars_full",
}
_KEY: Final = "An API key that the operator made, or a session token of `POST /auth/token`."
DESCRIPTION: Final = """Speech in, a talking presenter out.

Every error is an RFC 9457 problem document (`application/problem+json`) with a stable `type`, the `field` at fault, what came
(`got`), what would be accepted (`allowed`), and the `request_id` to name when asking the operator. Send `X-Request-Id` to choose
that id yourself; a job's progress can then be asked for at `/jobs/{id}`. Over capacity the answer is 503 with `Retry-After`.
What each kind of error means and what to do stands at `/problems`.
"""
TAGS: Final[dict[str, str]] = {
    "talking video": "A speech file in, an mp4 out, at once or while it is made.",
    "videos": "The same in the background: accepted at once, listed, cancelled, fetched when it is done. The shape is that of "
    "OpenAI's videos.",
    "presenters": "Who can speak. A registered presenter stays, for everybody who uses this service, until it is removed; one that "
    "came with a job as `portrait` is temporary.",
    "live": live_description(),
    "operations": "For those who run the service.",
}


def _problem_example(code: str) -> dict[str, Any]:
    kind = KINDS[code]
    example: dict[str, Any] = {
        "type": TYPE_PREFIX + code,
        "title": kind.title,
        "status": kind.status,
        "detail": kind.detail or "fps: got 30 (allowed: 25, 50, 59.94)",
        "code": code,
        "request_id": "b2c6e0d4a1f84f0c9a7d",
    }
    if kind.status == 422:
        example |= {"field": "fps", "got": "30", "allowed": "25, 50, 59.94"}
    elif not kind.detail:
        example["detail"] = kind.title
    if kind.status == 503:
        example["retry_after_s"] = 5
    return example


def problems(*which: int | str) -> dict[int | str, dict[str, Any]]:
    """`responses=` of a route: these errors, as problem details.

    Args:
        which: Codes of `KINDS`; or statuses, each with the code that is usual for it.
    """
    codes = [one if isinstance(one, str) else _EXAMPLE_CODES[one] for one in which]
    return {
        KINDS[code].status: {
            "description": KINDS[code].title,
            "content": {
                PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": _problem_example(code)}
            },
        }
        for code in codes
    }


def video_answer(ranges: bool = False) -> dict[int | str, dict[str, Any]]:
    """`responses=` of a route that answers an mp4."""
    content = {"video/mp4": {"schema": {"type": "string", "format": "binary"}}}
    answers: dict[int | str, dict[str, Any]] = {
        200: {"description": "The mp4 (H.264 + AAC); its metadata say that it is computed.", "content": content}
    }
    if ranges:
        answers[206] = {"description": "One byte range of the mp4.", "content": content}
    return answers


def picture_answer() -> dict[int | str, dict[str, Any]]:
    """`responses=` of a route that answers a JPEG."""
    content = {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}
    return {200: {"description": "The picture.", "content": content}}


def job_body(settings: ApiSettings, *, kept: bool = False) -> dict[str, Any]:
    """`openapi_extra=` of a route that takes a job.

    Args:
        settings: Defaults.
        kept: The route keeps the file and answers its address; else it answers the file.
    """
    portrait: dict[str, Any] = {"audio": "(speech.mp3)", "portrait": "(face.jpg)"}
    shown = ("A photo", portrait) if kept else ("A photo, streamed while it is made", portrait | {"stream": True})
    content: dict[str, Any] = {
        MULTIPART: {
            "schema": job_schema(settings, base64=False, kept=kept),
            "examples": {
                "default": {"summary": "The default presenter", "value": {"audio": "(speech.wav)"}},
                "portrait": {"summary": shown[0], "value": shown[1]},
                "text": {"summary": "Text that is spoken", "value": {"prompt": "Good evening."}},
            },
        },
        JSON: {
            "schema": job_schema(settings, base64=True, kept=kept),
            "example": {"audio": "UklGRiQAAABXQVZF...", "fps": 25, "seed": 7},
        },
    }
    return {"requestBody": {"required": True, "content": content}}


def avatar_body() -> dict[str, Any]:
    """`openapi_extra=` of the route that registers a presenter."""
    schema = {
        "type": "object",
        "required": ["file"],
        "additionalProperties": False,
        "properties": {
            "file": {
                "type": "string",
                "format": "binary",
                "description": "A portrait (JPEG, PNG, WebP, HEIC, AVIF) or a video of up to 60 s: one person, facing the camera.",
            },
            "name": {"type": "string", "maxLength": 200, "description": "For people; the file's name when left out."},
            "consent": {
                "type": "string",
                "maxLength": 1024,
                "description": "Who agreed that this face is animated, and for what; kept. The service may insist.",
            },
        },
    }
    example = {"file": "(face.jpg)", "name": "Anna, evening news"}
    return {"requestBody": {"required": True, "content": {MULTIPART: {"schema": schema, "example": example}}}}


def install_openapi(api: FastAPI, keys_needed: bool) -> None:
    """Make `/openapi.json` complete: the problem schema, no other error schema anywhere, and keys where they are needed."""

    def build() -> dict[str, Any]:
        if api.openapi_schema is None:
            tags = [{"name": name, "description": text} for name, text in TAGS.items()]
            found = get_openapi(
                title=api.title, version=api.version, description=DESCRIPTION, routes=api.routes, tags=tags
            )
            found["x-websockets"] = {AUDIO_SOCKET_PATH: audio_socket_description()}
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= problem.pop("$defs", {}) | {"Problem": problem}
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            for path in found["paths"].values():
                for operation in path.values():
                    if _is_fastapis_own(operation["responses"].get("422")):
                        del operation["responses"]["422"]
            if keys_needed:
                _add_keys(found)
            api.openapi_schema = found
        return api.openapi_schema

    api.openapi = build  # type: ignore[method-assign]  # FastAPI's documented way


def _add_keys(found: dict[str, Any]) -> None:
    """Say which scopes each operation needs, and how a request without them is answered."""
    found["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": _KEY}}
    refused = {str(status): answer for status, answer in problems(401, 403, 429).items()}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            if scopes := scopes_for(path, method.upper()):
                operation["security"] = [{"key": [scope]} for scope in scopes]
                operation["responses"] |= refused


def _is_fastapis_own(answer: dict[str, Any] | None) -> bool:
    return answer is not None and PROBLEM_TYPE not in answer.get("content", {})
