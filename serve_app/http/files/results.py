"""`GET /results/{id}`: a file that `POST /api/generate` made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from pipeline.media.results.store import ID_DIGITS, ResultNotFoundError, StoredResult
from serve_app.access.owned_ids import is_own
from serve_app.http.access.access import caller_of
from serve_app.http.files.byte_range import byte_range, names_tag
from serve_app.http.files.streamed import VIDEO, StreamedResponse
from serve_app.http.openapi import problems, video_answer
from serve_app.http.services import Services

LINK_S: Final = 600.0
"""Seconds for which a link into an object store can be followed."""


def result_routes(services: Services, wall_clock: Callable[[], float] = time.time) -> APIRouter:
    """The routes of finished files."""
    router = APIRouter(tags=["talking video"])

    @router.head("/results/{result_id}", include_in_schema=False)
    @router.get(
        "/results/{result_id}",
        response_class=Response,
        summary="The mp4 that POST /api/generate made",
        responses=video_answer(ranges=True) | problems("result_not_found", 410, 416, 500, 503),
    )
    async def result(result_id: str, request: Request) -> Response:
        """The whole file or one byte range of it; 410 once it has expired (for 24 h), 404 after that."""
        if not is_own(result_id, caller_of(request.scope)):
            raise ResultNotFoundError("id", repr(result_id[:80]), "the id of a result of this key")
        name = f"liveanchor-{result_id[:ID_DIGITS]}.mp4"
        return await answer_result(services, result_id, request, wall_clock(), name)

    return router


async def answer_result(services: Services, result_id: str, request: Request, now: float, name: str) -> Response:
    """Answer a stored file, or the range of it that the request asks for.

    Args:
        services: Parts of the application.
        result_id: Id of the file.
        request: Its headers and method say what is asked for.
        now: Seconds since the epoch.
        name: Name that the file gets where it is saved.

    Raises:
        ResultNotFoundError: There is no such file.
        ResultExpiredError: It is not kept any more.
        RangeError: The range lies outside the file.
        StoreUnreachableError: The store does not answer.
    """
    stored = await asyncio.to_thread(services.results.find, result_id)
    headers = _headers(stored, now, name)
    if names_tag(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    whole = request.method == "HEAD" or request.headers.get("if-range") not in (None, headers["ETag"])
    asked = None if whole else byte_range(request.headers.get("range"), stored.size)
    start, stop = asked or (0, stored.size)
    headers["Content-Length"] = str(stop - start)
    if asked is not None:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{stored.size}"
    status = 200 if asked is None else 206
    if request.method == "HEAD":  # of the whole file: ranges are for GET alone
        return Response(status_code=status, headers=headers, media_type=VIDEO)
    if services.settings.stores.results_links:
        seconds = min(LINK_S, stored.expires_at - now)
        link = await asyncio.to_thread(services.results.link, stored.result_id, seconds)
        if link is not None:
            return RedirectResponse(link, 307, {"Cache-Control": "no-store"})
    pieces = _in_thread(services.results.read(stored.result_id, start, stop))
    return StreamedResponse(pieces, AsyncExitStack(), status, headers, stall_s=services.settings.limits.stall_s)


def _headers(stored: StoredResult, now: float, name: str) -> dict[str, str]:
    return {
        "Accept-Ranges": "bytes",
        "ETag": f'"{stored.result_id}"',
        "Cache-Control": f"private, max-age={max(0, int(stored.expires_at - now))}, immutable",
        "Content-Disposition": f'inline; filename="{name}"',
    }


async def _in_thread(pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Read in a thread, no piece ahead of the client; the file is closed when the iterator is."""
    try:
        while (data := await asyncio.to_thread(next, pieces, None)) is not None:
            yield data
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            await asyncio.to_thread(close)
