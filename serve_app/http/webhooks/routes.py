"""Routes of messages: what became of them, sending one again, and the secrets that they are signed with."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from deployments.video_jobs.webhooks import ListMessages, ReadSecrets, ReplayMessage, RotateSecret
from kernels.errors import InvalidInputError
from pipeline.numbers import whole_number
from serve_app.access.caller import Caller
from serve_app.http.access.access import caller_of
from serve_app.http.body.fields import as_it_came
from serve_app.http.openapi import problems
from serve_app.http.problems.errors import KeyMissingError
from serve_app.http.services import Services
from serve_app.http.videos.owner import owner_of
from serve_app.http.webhooks.answers import (
    MessageAnswer,
    MessageList,
    SecretList,
    message_answer_of,
    secret_list_of,
)
from serve_app.http.webhooks.signature import new_secret

DAY_S: Final = 24 * 3600
LONGEST_OVERLAP_S: Final = 30 * DAY_S
_OVERLAP: Final[dict[str, Any]] = {
    "name": "overlap_s",
    "in": "query",
    "description": "Seconds for which messages are signed with the older secret, too; 0 ends it at once.",
    "schema": {"type": "integer", "minimum": 0, "maximum": LONGEST_OVERLAP_S, "default": DAY_S},
}


def webhook_routes(services: Services) -> APIRouter:
    """The routes of messages and their secrets."""
    router, jobs = APIRouter(tags=["videos"]), services.jobs

    @router.get(
        "/v1/videos/{video_id}/webhooks",
        summary="What became of the messages about a video",
        responses=problems("video_not_found", 500, "jobs_unavailable"),
    )
    async def messages(video_id: str, request: Request) -> MessageList:
        """One message for each time that the video ended, each with its attempts."""
        found = await jobs.handle(ListMessages(video_id, owner_of(request)))
        return MessageList(data=[message_answer_of(one) for one in found])

    @router.post(
        "/v1/videos/{video_id}/webhooks/replay",
        status_code=202,
        summary="Send the last message about a video again",
        responses=problems("video_not_found", "video_state", 500, "jobs_unavailable"),
    )
    async def replay(video_id: str, request: Request) -> MessageAnswer:
        """Whether it was delivered or given up, with the same id; where it fails, it is tried again as at first."""
        return message_answer_of(await jobs.handle(ReplayMessage(video_id, owner_of(request))))

    @router.get(
        "/v1/webhooks/secret",
        summary="What messages are signed with",
        responses=problems("key_missing", 500, "jobs_unavailable"),
    )
    async def secret(request: Request, response: Response) -> SecretList:
        """The secret of the key that asks, made when it is first asked for; for a while after a rotation, the older one, too.

        It is shown to keys alone, not to session tokens.
        """
        response.headers["Cache-Control"] = "no-store"
        return secret_list_of(await jobs.handle(ReadSecrets(_holder(request).owner, new_secret())))

    @router.post(
        "/v1/webhooks/secret/rotate",
        summary="Sign messages with a new secret",
        responses=problems("key_missing", 422, 500, "jobs_unavailable"),
        openapi_extra={"parameters": [_OVERLAP]},
    )
    async def rotate(request: Request, response: Response) -> SecretList:
        """Answers the new secret. Messages carry signatures by both until the older one expires."""
        response.headers["Cache-Control"] = "no-store"
        asked = request.query_params.get("overlap_s", str(DAY_S))
        overlap_s = whole_number(asked)
        if overlap_s is None or not 0 <= overlap_s <= LONGEST_OVERLAP_S:
            allowed = f"whole seconds, 0 to {LONGEST_OVERLAP_S}"
            raise InvalidInputError("overlap_s", as_it_came(asked), allowed)
        return secret_list_of(await jobs.handle(RotateSecret(_holder(request).owner, new_secret(), overlap_s)))

    return router


def _holder(request: Request) -> Caller:
    """Who asks with a key. A session token may lie in a browser, which must not learn what proves where a message comes from."""
    caller = caller_of(request.scope)
    if caller.born_at is not None:
        raise KeyMissingError()
    return caller
