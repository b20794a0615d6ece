"""Ingests as callers name them: `{url, token}`, alone or as the list `publish` of an offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kernels.errors import InvalidInputError
from pipeline.publish.target import MAX_TOKEN_CHARS, PublishTarget, check_target
from serve_app.http.body.fields import as_it_came
from serve_app.http.body.pieces import RawForm
from serve_app.http.problems.errors import MissingFieldError, UnknownFieldError
from serve_app.http.settings import ApiSettings

TARGET_KEYS: Final = ("url", "token")
_ALLOWED: Final = "a list of objects {url, token}"
TARGET_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["url"],
    "additionalProperties": False,
    "properties": {
        "url": {
            "type": "string",
            "description": "Address of a WHIP ingest (RFC 9725), or `rtmp://host/application/key`, that the operator lets "
            "callers reach.",
        },
        "token": {
            "type": "string",
            "maxLength": MAX_TOKEN_CHARS,
            "description": "Sent to the ingest as `Authorization: Bearer TOKEN`; never shown again.",
        },
    },
}


def target_of(values: Mapping[str, object], settings: ApiSettings, prefix: str = "") -> PublishTarget:
    """Check an ingest.

    Args:
        values: Its fields by name.
        settings: What is allowed.
        prefix: What goes before the names of the fields in errors.

    Raises:
        InvalidInputError: A field is missing or wrong; the error names it.
    """
    url, token = values.get("url"), values.get("token")
    if url is None or url == "":
        raise MissingFieldError(f"{prefix}url", "nothing", "the address of a WHIP ingest or an RTMP server")
    for name, value in (("url", url), ("token", token)):
        if value is not None and not isinstance(value, str):
            raise InvalidInputError(f"{prefix}{name}", as_it_came(value), "text")
    target = PublishTarget(str(url), str(token or ""))
    check_target(target, settings.publish, prefix)
    return target


def targets_field(form: RawForm, settings: ApiSettings) -> tuple[PublishTarget, ...]:
    """Check the list `publish` of an offer; empty where there is none.

    Raises:
        InvalidInputError: It is no such list, too long, or an entry is wrong; the error names the entry.
    """
    value = form.values.get("publish")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidInputError("publish", as_it_came(value), _ALLOWED)
    if len(value) > (most := settings.publish.max_publications):
        raise InvalidInputError("publish", f"{len(value)} ingests", f"at most {most}")
    found = []
    for number, one in enumerate(value):
        where = f"publish[{number}]"
        if not isinstance(one, dict):
            raise InvalidInputError(where, as_it_came(one), "an object {url, token}")
        if unknown := sorted(set(one) - set(TARGET_KEYS)):
            raise UnknownFieldError(f"{where}.{unknown[0]}", "a field of that name", "the fields url, token")
        found.append(target_of(one, settings, f"{where}."))
    return tuple(found)
