"""`/avatars`: routes of the presenters that a job can name."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from deployments.host.avatar_commands import DeleteAvatar, GetAvatar, ListAvatars, ReadConsents, ReadPreview
from deployments.host.avatar_consents import CONSENT
from kernels.errors import InvalidInputError
from pipeline.avatars.name import clean_name
from pipeline.avatars.store import AvatarNotFoundError, AvatarSummary, check_avatar_id
from pipeline.families import DEFAULT_FAMILY
from serve_app.access.caller import Caller
from serve_app.http.access.access import caller_of
from serve_app.http.body.disconnect import until_disconnect
from serve_app.http.body.fields import text_field
from serve_app.http.body.multipart import need_file, read_multipart
from serve_app.http.body.pieces import MULTIPART, FormShape, content_type, refuse_query
from serve_app.http.files.byte_range import names_tag
from serve_app.http.openapi import avatar_body, picture_answer, problems
from serve_app.http.problems.errors import MissingFieldError, UnsupportedBodyError
from serve_app.http.services import Services

AVATAR_SHAPE: Final = FormShape(("file",), ("name", "consent"))
_PICTURE: Final = "a portrait (JPEG, PNG, WebP, HEIC, AVIF) or a short video"
AvatarId = Annotated[str, Path(description="32 hexadecimal digits.", examples=["6f1c0e4b8a7d4c2f9e3b5a6d7c8e9f01"])]


class AvatarAnswer(BaseModel):
    """A presenter."""

    avatar_id: str = Field(examples=["6f1c0e4b8a7d4c2f9e3b5a6d7c8e9f01"])
    name: str = Field(examples=["Anna, evening news"])
    family: str = Field(description="Which models animate it.", examples=[DEFAULT_FAMILY])
    width: int = Field(description="Pixels of its videos.", examples=[1080])
    height: int = Field(examples=[1920])
    preview_url: str = Field(examples=["/avatars/6f1c0e4b8a7d4c2f9e3b5a6d7c8e9f01/preview.jpg"])
    is_default: bool = Field(False, description="The presenter that speaks when a job names none.")
    temporary: bool = Field(
        False,
        description="A job made it of its portrait. It goes when nobody uses it, or needs to make room for others.",
    )
    expires_at: datetime | None = Field(
        None,
        description="A temporary one goes then (UTC), unless a job or a live session uses it before. null: not by time.",
    )


class AvatarList(BaseModel):
    """All presenters."""

    avatars: list[AvatarAnswer]
    consent_needed: bool = Field(False, description="Whether `POST /avatars` takes none without `consent`.")


class ConsentAnswer(BaseModel):
    """A statement of consent."""

    statement: str = Field(examples=["Anna Example agreed on 3 May 2026 that we animate her portrait in our news."])
    given_at: datetime = Field(description="When it was kept (UTC).")


class ConsentList(BaseModel):
    """Statements about one presenter, the newest last."""

    consents: list[ConsentAnswer]


def avatar_routes(services: Services) -> APIRouter:
    """Make the routes that register, list, show and remove presenters."""
    router = APIRouter(prefix="/avatars", tags=["presenters"])
    host, ttl_s = services.host, services.settings.limits.temporary_avatar_ttl_s

    def answer(summary: AvatarSummary, is_default: bool = False) -> AvatarAnswer:
        return _answer(summary, is_default, ttl_s)

    async def answer_of(summary: AvatarSummary) -> AvatarAnswer:
        return answer(summary, summary.avatar_id == (await host.handle(GetAvatar(""))).avatar_id)

    @router.post(
        "",
        status_code=201,
        summary="Register a portrait",
        responses=problems(400, 408, 413, 415, 422, 500, 503, 507),
        openapi_extra=avatar_body(),
    )
    async def register(request: Request, response: Response) -> AvatarAnswer:
        """Makes a presenter of a portrait photo, or of the best frame of a short video.

        The same picture gives the same id; a `name` given then is its new name. A temporary presenter stays from then on.
        """
        refuse_query(request, AVATAR_SHAPE)
        kind = content_type(request)
        if kind != MULTIPART:
            raise UnsupportedBodyError("Content-Type", kind or "none", MULTIPART)
        with services.receiving() as hold:
            limits = services.settings.body(services.settings.limits.max_upload_bytes)
            caller = caller_of(request.scope)
            with services.intake.place(caller):
                form = await read_multipart(request, AVATAR_SHAPE, limits, hold)
            file = need_file(form, "file", _PICTURE)
            services.metrics.uploaded(hold.held)
            names = (clean_name(text_field(form, "name", "text")), clean_name(_stem(file.filename)))
            consent = text_field(form, "consent", CONSENT).strip()
            if services.settings.consent.needed and not consent:
                raise MissingFieldError("consent", "nothing", CONSENT)
            with services.working():
                registering = _register(services, caller, file.data, *names, consent)
                summary = await until_disconnect(request.receive, registering)
        response.headers["Location"] = f"/avatars/{summary.avatar_id}"
        return await answer_of(summary)

    @router.head("", include_in_schema=False)
    @router.get("", summary="All presenters", responses=problems(500, 503))
    async def avatars(request: Request) -> AvatarList:
        """Lists the default presenter first. The gallery and temporary presenters are in the list too."""
        only = caller_of(request.scope).only
        default = await host.handle(GetAvatar(""))
        found = [one for one in await host.handle(ListAvatars(only=only)) if one.avatar_id != default.avatar_id]
        shown = [answer(default, is_default=True), *map(answer, found)]
        return AvatarList(avatars=shown, consent_needed=services.settings.consent.needed)

    @router.head("/{avatar_id}", include_in_schema=False)
    @router.get("/{avatar_id}", summary="One presenter", responses=problems(404, "avatar_bundle_schema", 500, 503))
    async def avatar(avatar_id: AvatarId, request: Request) -> AvatarAnswer:
        """Describes one presenter."""
        only = caller_of(request.scope).only
        return await answer_of(await host.handle(GetAvatar(_known_form(avatar_id), only=only)))

    @router.head("/{avatar_id}/preview.jpg", include_in_schema=False)
    @router.get(
        "/{avatar_id}/preview.jpg",
        response_class=Response,
        summary="A small picture of a presenter",
        responses=picture_answer() | problems(404, 500, 503),
    )
    async def preview(avatar_id: AvatarId, request: Request) -> Response:
        """A JPEG of at most 512 pixels a side. It never changes."""
        checked = _known_form(avatar_id)
        headers = {"ETag": f'"{checked}"', "Cache-Control": "private, max-age=86400"}
        data = await host.handle(ReadPreview(checked, only=caller_of(request.scope).only))
        if names_tag(request.headers.get("if-none-match"), headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return Response(data, media_type="image/jpeg", headers=headers)

    @router.head("/{avatar_id}/consent", include_in_schema=False)
    @router.get(
        "/{avatar_id}/consent",
        summary="What was agreed to about a presenter",
        responses=problems(404, 500, 503),
    )
    async def consent(avatar_id: AvatarId, request: Request) -> ConsentList:
        """The statement that came with the caller's registration; for `admin`, and where no keys are needed, all of them."""
        only = caller_of(request.scope).only
        found = await host.handle(ReadConsents(_known_form(avatar_id), only=only))
        return ConsentList(
            consents=[
                ConsentAnswer(statement=one.statement, given_at=datetime.fromtimestamp(int(one.given_at), UTC))
                for one in found
            ]
        )

    @router.delete(
        "/{avatar_id}",
        status_code=204,
        summary="Remove a presenter",
        responses=problems("avatar_shared", 404, 500, 503),
    )
    async def delete(avatar_id: AvatarId, request: Request) -> None:
        """Jobs that already use it finish. The default presenter and the gallery come back when they are needed."""
        await host.handle(DeleteAvatar(_known_form(avatar_id), only=caller_of(request.scope).only))

    return router


async def _register(
    services: Services, caller: Caller, data: bytes, name: str, file_name: str, consent: str
) -> AvatarSummary:
    """Register a portrait; its errors name the field as this route does."""
    try:
        return await services.register(caller, data, name, file_name, consent=consent)
    except InvalidInputError as error:
        if error.field == "portrait":
            error.field = "file"
        raise


def _known_form(avatar_id: str) -> str:
    """Return an id that has the form of one; in an address, any other text is the id of no presenter: 404 and not 422."""
    try:
        return check_avatar_id(avatar_id)
    except InvalidInputError as error:
        raise AvatarNotFoundError("avatar_id", error.got, "the id of a registered avatar") from error


def _stem(filename: str) -> str:
    """Name of a file without folders and ending; it is only ever shown."""
    return re.split(r"[/\\]", filename)[-1].rpartition(".")[0] or ""


def _answer(summary: AvatarSummary, is_default: bool, ttl_s: float) -> AvatarAnswer:
    expires = summary.used_at is not None and ttl_s > 0
    return AvatarAnswer(
        avatar_id=summary.avatar_id,
        name=summary.name,
        family=summary.family,
        width=summary.width,
        height=summary.height,
        preview_url=f"/avatars/{summary.avatar_id}/preview.jpg",
        is_default=is_default,
        temporary=summary.used_at is not None,
        expires_at=datetime.fromtimestamp(int((summary.used_at or 0) + ttl_s), UTC) if expires else None,
    )
