"""A JSON body with files as base64 -> the same fields as a form."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from decimal import Decimal
from typing import Final, NoReturn

from starlette.requests import Request

from serve_app.http.body.pieces import BodyLimits, FormShape, RawForm, Upload, names_a_file, read_whole
from serve_app.http.capacity import Hold
from serve_app.http.problems.errors import BodyMalformedError, DuplicateFieldError, UnknownFieldError

_DATA_URL: Final = re.compile(r"data:[\w.+/;=-]{0,100},", re.ASCII)
_BASE64: Final = "the file as base64 (RFC 4648), or as a data: URL"
_ALLOWED_BODY: Final = "one JSON object (RFC 8259, UTF-8)"


async def read_json(request: Request, shape: FormShape, limits: BodyLimits, hold: Hold) -> RawForm:
    """Read and check a JSON body.

    Args:
        request: The request whose body is read.
        shape: Which fields there may be.
        limits: Limits of the whole body.
        hold: Charged with every byte that is kept.

    Raises:
        InvalidInputError: One of `serve_app.http.problems.errors`.
        BusyError: All requests together hold too much.
        ClientDisconnect: The client went away.
    """
    return await asyncio.to_thread(parse_json, await read_whole(request, limits, hold), shape)


def parse_json(body: bytes, shape: FormShape) -> RawForm:
    """Parse a body and take its fields out; arguments and errors as in `read_json`."""
    try:
        found = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=Decimal
        )
    except (ValueError, RecursionError) as error:
        reason = "no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:100] or "nested too deeply"
        raise BodyMalformedError("body", f"no JSON ({reason})", _ALLOWED_BODY) from error
    if not isinstance(found, dict):
        raise BodyMalformedError("body", f"JSON, but {_kind(found)}", _ALLOWED_BODY)
    form = RawForm()
    for name, value in found.items():
        if name in shape.files:
            if value is not None:
                form.files[name] = Upload(_decoded(name, value))
        elif name in shape.values:
            form.values[name] = value
        else:
            raise UnknownFieldError(name, "a field of that name", f"the fields {shape.known}")
    return form


def _decoded(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise BodyMalformedError(name, _kind(value), _BASE64)
    text = value if not value.startswith("data:") else value[_end_of_prefix(name, value) :]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        what = "the name of a file, not its content" if names_a_file(text) else "text that is no base64"
        raise BodyMalformedError(name, what, _BASE64) from error


def _end_of_prefix(name: str, value: str) -> int:
    prefix = _DATA_URL.match(value)
    if prefix is None or not prefix.group().endswith(";base64,"):
        raise BodyMalformedError(name, "a data: URL without base64", _BASE64)
    return prefix.end()


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateFieldError(twice, "the field twice", "the field once")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _kind(value: object) -> str:
    """A value's JSON type in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds = ((str, "text"), (int, "a number"), (Decimal, "a number"), (list, "a list"), (dict, "an object"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "something else")
