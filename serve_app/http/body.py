"""Reading a request's body piece by piece, never more than allowed. Nothing is written to disk."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request

from serve_app.http.errors import BodyMalformedError, BodyTooLargeError

MULTIPART: Final = "multipart/form-data"
JSON: Final = "application/json"
_DIGITS: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Upload:
    """A file field.

    Attributes:
        data: Its bytes.
        filename: As the client said; empty when it said none. Never used as a path.
    """

    data: bytes
    filename: str = ""


@dataclass(frozen=True)
class RawForm:
    """Fields as they came: files by name, and text (or, from JSON, plain values) by name."""

    files: dict[str, Upload] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class FormShape:
    """Which fields a route knows.

    Attributes:
        files: Names of file fields.
        values: Names of the others.
    """

    files: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def known(self) -> str:
        """All names, for messages."""
        return ", ".join((*self.files, *self.values))


async def body_pieces(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    """The body as it comes in.

    Args:
        request: Whose body.
        limit: Most bytes.

    Raises:
        BodyTooLargeError: The length that was announced, or the bytes that came, exceed the limit.
        BodyMalformedError: The announced length is no number.
        ClientDisconnect: The client went away.
    """
    announced = request.headers.get("content-length")
    if announced is not None:
        if not _DIGITS.fullmatch(announced):
            raise BodyMalformedError("Content-Length", announced, "a number of bytes")
        if int(announced) > limit:
            raise _too_large(f"{announced} bytes", limit)
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise _too_large(f"more than {limit} bytes", limit)
        if piece:
            yield piece


def _too_large(got: str, limit: int) -> BodyTooLargeError:
    return BodyTooLargeError("body", got, f"at most {limit} bytes")
