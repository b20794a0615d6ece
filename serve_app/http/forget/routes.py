"""`POST /v1/forget`: remove all that belongs to a key or shows a presenter, and report what went and what did not."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any, Final

import structlog
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from kernels.errors import InvalidInputError
from pipeline.avatars.store import check_avatar_id
from serve_app.access.key_file import KeyFile
from serve_app.access.keys import KEY_ID
from serve_app.http.body.fields import as_it_came, text_field
from serve_app.http.body.json_body import read_json
from serve_app.http.body.pieces import JSON, FormShape, RawForm, content_type, refuse_query
from serve_app.http.context import request_id_of
from serve_app.http.forget.forgetting import Forgetting, Subject
from serve_app.http.live.host import LiveHost
from serve_app.http.openapi import problems
from serve_app.http.problems.errors import MissingFieldError, UnsupportedBodyError
from serve_app.http.services import Services

FORGET_PATH: Final = "/v1/forget"
FORGET_SHAPE: Final = FormShape((), ("key", "avatar_id", "dry_run"))
MAX_BODY: Final = 4096
_KEY: Final = "the id or the name of a key"
_ONE: Final = "one of key and avatar_id"


class LeftAnswer(BaseModel):
    """Something that could not be removed."""

    kind: str = Field(description="`live_session`, `video`, `work`, `result`, `presenter`, `copies`, `secret`.")
    name: str = Field(description="Which one; empty where all of the kind could not be looked at.")
    reason: str


class ForgetAnswer(BaseModel):
    """What was removed, or would be."""

    key: str | None = Field(description="Id of the key whose things they were.", examples=["k0123456789ab"])
    avatar_id: str | None = Field(description="The presenter that they showed.")
    dry_run: bool = Field(description="Whether all is still there.")
    complete: bool = Field(description="Whether nothing is left.")
    live_sessions: list[str] = Field(description="Live sessions that were ended.")
    videos: list[str] = Field(description="Videos that were cancelled where they were in work, and forgotten.")
    uploads: list[str] = Field(description="Those of them whose speech or portrait was still kept.")
    results: list[str] = Field(description="Files that were removed besides those of `videos`.")
    presenters: list[str] = Field(description="Presenters that were removed.")
    kept_presenters: list[str] = Field(
        description="Presenters that stay because they are others' too; the key's name and statement for them went."
    )
    messages: int = Field(description="Messages to `webhook_url` that went with the videos, delivered ones included.")
    consents: int = Field(description="Statements of consent that went.")
    secrets: int = Field(description="Secrets for signing messages that went.")
    cleared: list[str] = Field(description="Nodes and processes whose copies of the presenters were dropped.")
    left: list[LeftAnswer] = Field(description="What could not be removed, and why.")


def forget_routes(services: Services, live: LiveHost) -> APIRouter:
    """Make the route that forgets."""
    router = APIRouter(tags=["operations"])
    limits = services.settings.body(MAX_BODY)
    log = structlog.get_logger("liveanchor.http")

    @router.post(
        FORGET_PATH,
        summary="Remove all that belongs to a key or shows a presenter",
        responses=problems(400, 408, 413, 415, 422, 500, 503),
        openapi_extra=_body(),
    )
    async def forget(request: Request) -> ForgetAnswer:
        """For `admin`. Ends live sessions and videos in work, removes what they made and what came for them, and all copies.

        Answers 200 also where something is left: `complete` says so, `left` names it. A repeated request is harmless. A key that
        is still valid can make new things: revoke it first. With `dry_run` nothing is touched.
        """
        refuse_query(request, FORGET_SHAPE)
        if (kind := content_type(request)) != JSON:
            raise UnsupportedBodyError("Content-Type", kind or "none", JSON)
        with services.budget.hold() as hold:
            form = await read_json(request, FORGET_SHAPE, limits, hold)
        subject = await asyncio.to_thread(_subject, form, KeyFile(services.settings.keys.path()))
        dry_run = _flag(form, "dry_run")
        report = await Forgetting(services, live, subject, dry_run=dry_run).run()
        found = asdict(report)
        counts = {name: len(value) if isinstance(value, list) else value for name, value in found.items()}
        log.info("forgotten", request_id=request_id_of(request.scope), **asdict(subject), dry_run=dry_run, **counts)
        return ForgetAnswer(
            key=subject.owner or None,
            avatar_id=subject.avatar_id or None,
            dry_run=dry_run,
            complete=not report.left,
            **found,
        )

    return router


def _subject(form: RawForm, keys: KeyFile) -> Subject:
    key, avatar_id = text_field(form, "key", _KEY), text_field(form, "avatar_id", "the id of a presenter")
    if not key and not avatar_id:
        raise MissingFieldError("key", "nothing", _ONE)
    if key and avatar_id:
        raise InvalidInputError("key", "both", _ONE)
    return Subject(avatar_id=check_avatar_id(avatar_id)) if avatar_id else Subject(owner=_key_id(key, keys))


def _key_id(key: str, keys: KeyFile) -> str:
    """Id of a key by its id, also where its entry is gone, or by its name."""
    if KEY_ID.fullmatch(key):
        return key
    found = [one.key_id for one in keys.list() if one.name == key]
    if len(found) == 1:
        return found[0]
    which = f"{key[:80]!r}, which {len(found)} keys have ({', '.join(found)})" if found else repr(key[:80])
    raise InvalidInputError("key", which, f"{_KEY} that `liveanchor keys list` shows")


def _flag(form: RawForm, name: str) -> bool:
    value = form.values.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidInputError(name, as_it_came(value), "true or false")


def _body() -> dict[str, Any]:
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "key": {"type": "string", "description": "Id or name of the key; it may be revoked."},
            "avatar_id": {"type": "string", "description": "Id of the presenter, whosever it is."},
            "dry_run": {"type": "boolean", "default": False, "description": "Report what would go, and touch nothing."},
        },
    }
    content = {JSON: {"schema": schema, "example": {"key": "newsroom", "dry_run": True}}}
    return {"requestBody": {"required": True, "content": content}}
