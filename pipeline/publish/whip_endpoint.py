"""The HTTP side of WHIP (RFC 9725): an offer is posted, the session's address comes back and is deleted at the end."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx

from pipeline.fetch.fetcher import Fetcher, UrlUnreachableError
from pipeline.publish.errors import IngestRefusedError, IngestUnreachableError
from pipeline.publish.settings import PublishSettings
from pipeline.publish.target import PublishTarget, check_host
from pipeline.webrtc.sdp import MAX_SDP_BYTES

SDP: Final = "application/sdp"
ANSWER_S: Final = 10.0
"""Longest wait for an answer, redirects included."""
DELETE_S: Final = 3.0
MAX_RETRY_AFTER_S: Final = 300.0
_SAME_METHOD: Final = (307, 308)
_SECRET_WRONG: Final = (401, 403)
_LATER: Final = (408, 409, 425, 429)
_A_WHIP_INGEST: Final = "the address of a WHIP ingest that takes H.264 and Opus"


@dataclass(frozen=True)
class WhipSession:
    """What an ingest answered.

    Attributes:
        sdp: Its session description.
        url: The address that ends the session; empty where it gave none.
    """

    sdp: str
    url: str


class WhipEndpoint:
    """Talks to one ingest. Its token goes to the scheme, host and port that the caller named alone, wherever the ingest leads.

    Args:
        fetcher: Sends requests, and refuses addresses that may not be asked.
        target: The ingest.
        settings: Which hosts are allowed, for addresses that the ingest names.
    """

    def __init__(self, fetcher: Fetcher, target: PublishTarget, settings: PublishSettings) -> None:
        self._fetcher = fetcher
        self._target = target
        self._settings = settings

    async def begin(self, offer: str) -> WhipSession:
        """Post an offer.

        Raises:
            UrlRefusedError: The address, or one that it redirects to, is not asked.
            IngestRefusedError: The ingest says no.
            IngestUnreachableError: It does not answer, or not now.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._post(offer)
        except TimeoutError as error:
            raise IngestUnreachableError(f"{self._target.shown} did not answer within {ANSWER_S:g} s") from error

    async def end(self, session: WhipSession) -> None:
        """Delete a session. What the ingest answers changes nothing.

        Raises:
            UrlRefusedError: The address of the session is not asked.
            IngestUnreachableError: The ingest does not answer.
        """
        if not session.url:
            return
        try:
            async with asyncio.timeout(DELETE_S), self._sent("DELETE", session.url, b""):
                return
        except TimeoutError as error:
            raise IngestUnreachableError(f"{self._target.shown} did not answer within {DELETE_S:g} s") from error

    async def _post(self, offer: str) -> WhipSession:
        url = self._target.url
        for _ in range(self._settings.max_redirects + 1):
            async with self._sent("POST", url, offer.encode()) as answer:
                if answer.status_code in _SAME_METHOD:
                    url = self._named(url, answer.headers.get("location", ""))
                    continue
                if answer.status_code not in (200, 201):
                    raise self._refusal(answer)
                sdp = await _text(answer)
                where = answer.headers.get("location", "")
                return WhipSession(sdp, self._named(url, where) if where else "")
        raise IngestRefusedError("url", "an address with too many redirects", _A_WHIP_INGEST)

    def _named(self, url: str, location: str) -> str:
        """An address that the ingest names."""
        found = self._fetcher.redirected(url, location, "url")
        check_host(httpx.URL(found), self._settings, "url")
        return found

    @asynccontextmanager
    async def _sent(self, method: str, url: str, content: bytes) -> AsyncGenerator[httpx.Response, None]:
        headers = {"Content-Type": SDP, "Accept": SDP} if content else {}
        if self._target.token and _origin(url) == _origin(self._target.url):
            headers["Authorization"] = f"Bearer {self._target.token}"
        try:
            async with self._fetcher.open(url, "url", method, headers, content) as answer:
                yield answer
        except UrlUnreachableError as error:
            raise IngestRefusedError("url", "a host without an address", _A_WHIP_INGEST) from error
        except httpx.HTTPError as error:
            raise IngestUnreachableError(f"{self._target.shown} does not answer ({type(error).__name__})") from error

    def _refusal(self, answer: httpx.Response) -> IngestRefusedError | IngestUnreachableError:
        status = answer.status_code
        said = f"one that the ingest answers with {status}"
        if status in _SECRET_WRONG:
            return IngestRefusedError("token", said, "the token that the ingest expects")
        if status in _LATER or status >= 500:
            reason = f"{self._target.shown} answered {status}"
            return IngestUnreachableError(reason, _seconds(answer.headers.get("retry-after", "")))
        return IngestRefusedError("url", said, _A_WHIP_INGEST)


def _origin(url: str) -> tuple[str, str, int | None]:
    read = httpx.URL(url)
    return read.scheme, read.host, read.port  # httpx leaves out the scheme's own port


def _seconds(text: str) -> float:
    """A `Retry-After` of seconds; a date, and what cannot be read, is none."""
    return min(float(text[:9]), MAX_RETRY_AFTER_S) if text.isascii() and text.isdigit() else 0.0


async def _text(answer: httpx.Response) -> str:
    body = io.BytesIO()
    async for piece in answer.aiter_raw():
        if body.tell() + len(piece) > MAX_SDP_BYTES:
            raise IngestRefusedError("url", f"one that answers more than {MAX_SDP_BYTES} bytes", _A_WHIP_INGEST)
        body.write(piece)
    try:
        return body.getvalue().decode("utf-8")
    except UnicodeDecodeError as error:
        raise IngestRefusedError("url", "one that answers no UTF-8", _A_WHIP_INGEST) from error
