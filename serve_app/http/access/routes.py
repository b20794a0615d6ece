"""`POST /auth/token`: a session token for a key, so that a browser need not keep the key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from kernels.errors import InvalidInputError
from pipeline.numbers import whole_number
from serve_app.access.keys import SCOPES, Scope, checked_scopes
from serve_app.http.access.access import Access, caller_of
from serve_app.http.access.rules import TOKEN_PATH
from serve_app.http.body.json_body import parse_json
from serve_app.http.body.pieces import JSON, FormShape, RawForm, content_type, read_whole, refuse_query
from serve_app.http.openapi import problems
from serve_app.http.problems.errors import KeysOffError, UnsupportedBodyError
from serve_app.http.services import Services

TOKEN_SHAPE: Final = FormShape((), ("scopes", "expires_in_s"))
MAX_TOKEN_BODY: Final = 4096
SHORTEST_S: Final = 60


class TokenAnswer(BaseModel):
    """A session token."""

    token: str = Field(description="Send it as `Authorization: Bearer TOKEN`.", examples=["la_tok_eyJrIjoi..."])
    scopes: list[Scope] = Field(description="What it allows.", examples=[["generate", "live"]])
    expires_at: datetime = Field(description="It is refused from then on (UTC).")
    expires_in_s: int = Field(description="Seconds until then.", examples=[3600])


def access_routes(services: Services, access: Access) -> APIRouter:
    """Make the route that exchanges keys for tokens."""
    router = APIRouter(tags=["operations"])
    limits = services.settings.body(MAX_TOKEN_BODY)

    @router.post(
        TOKEN_PATH,
        include_in_schema=access.needed,
        summary="A session token for a key",
        responses=problems(400, 408, "keys_off", 413, 415, 422),
        openapi_extra=_token_body(access.longest_s),
    )
    async def token(request: Request) -> TokenAnswer:
        """Answers a token that is valid for a while and allows what the key does, or less.

        A token can be exchanged for a newer one until the time that the operator set. It ends with its key.
        """
        refuse_query(request, TOKEN_SHAPE)
        form = RawForm()
        with services.budget.hold() as hold:
            body = await read_whole(request, limits, hold)
        if not access.needed:
            raise KeysOffError("Authorization", "a request for a token", "requests without a key: none is needed here")
        if body:
            if (kind := content_type(request)) != JSON:
                raise UnsupportedBodyError("Content-Type", kind or "none", JSON)
            form = parse_json(body, TOKEN_SHAPE)
        given = access.give(caller_of(request.scope), _scopes(form), _seconds(form, access.longest_s))
        return TokenAnswer(
            token=given.text,
            scopes=list(given.scopes),
            expires_at=datetime.fromtimestamp(int(given.expires_at), UTC),
            expires_in_s=access.seconds_to(given.expires_at),
        )

    return router


def _scopes(form: RawForm) -> tuple[Scope, ...]:
    value = form.values.get("scopes")
    if value is None:
        return SCOPES
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidInputError("scopes", repr(value)[:80], f"a list of {', '.join(SCOPES)}")
    return checked_scopes(value)


def _seconds(form: RawForm, longest_s: float) -> float | None:
    value = form.values.get("expires_in_s")
    if value is None:
        return None
    found = whole_number(value)
    if found is None or not SHORTEST_S <= found <= longest_s:
        raise InvalidInputError("expires_in_s", repr(value)[:80], f"a whole number, {SHORTEST_S} to {longest_s:g}")
    return float(found)


def _token_body(longest_s: float) -> dict[str, Any]:
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "scopes": {
                "type": "array",
                "items": {"type": "string", "enum": list(SCOPES)},
                "minItems": 1,
                "description": "What the token shall allow; what the key does not allow is left out. All when left out.",
            },
            "expires_in_s": {"type": "integer", "minimum": SHORTEST_S, "maximum": int(longest_s)},
        },
    }
    content = {JSON: {"schema": schema, "example": {"scopes": ["live"]}}}
    return {"requestBody": {"required": False, "content": content}}
