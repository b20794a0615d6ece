"""The client for asyncio. `sync_client.py` is its twin for plain code; what they send stands in `calls.py`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx

from liveanchor.client import calls
from liveanchor.client.answers import Generated, Interrupted, LiveSession, Presenter, Progress, Spoken, Video, VideoPage
from liveanchor.client.call import Call, Upload, address, authorization, check, check_video, no_answer, result_of
from liveanchor.client.errors import ClientError
from liveanchor.client.options import form_options, offer_options
from liveanchor.client.part_file import PartFile
from liveanchor.client.waiting import Wait, with_file

T = TypeVar("T")


class AsyncClient:
    """Talks to one service.

    Args:
        url: Address of the service, such as `http://127.0.0.1:8000`.
        api_key: Key or session token, where the service asks for one.
        http: An httpx client of one's own (proxies, certificates); the caller closes it.
        clock: Seconds of a clock that only goes forward.
        pause: Waits for that many seconds.

    Raises:
        BadArgumentError: The address or the key cannot be one.
    """

    def __init__(
        self,
        url: str,
        api_key: str = "",
        *,
        http: httpx.AsyncClient | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.url = address(url)
        self._headers = authorization(api_key)
        self._http = http or httpx.AsyncClient()
        self._own = http is None
        self._clock = clock
        self._pause = pause
        self.videos = AsyncVideos(self)
        self.live = AsyncLive(self)

    async def __aenter__(self) -> AsyncClient:
        """Close the connections at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections; an httpx client that was given stays open."""
        if self._own:
            await self._http.aclose()

    async def version(self) -> str:
        """Version of the service.

        Raises:
            ClientError: As every call: the service refused or failed, or cannot be reached.
        """
        return await self.send(calls.version())

    async def ready(self) -> None:
        """Return where the whole graph answers, raise otherwise."""
        await self.send(calls.ready())

    async def presenters(self) -> tuple[Presenter, ...]:
        """All presenters that this caller may use."""
        return await self.send(calls.presenters())

    async def register(self, portrait: Upload, *, name: str = "", consent: str = "") -> Presenter:
        """Make a presenter that stays until it is removed; the same picture gives the same one.

        Args:
            portrait: A picture or a short video.
            name: For people; that of the file where it is empty.
            consent: Who agreed that the face is animated, and for what; kept with the presenter. Some services insist on it.
        """
        return await self.send(calls.register(portrait, name, consent))

    async def remove_presenter(self, avatar_id: str) -> None:
        """Remove a presenter, with what was agreed to about it."""
        await self.send(calls.remove_presenter(avatar_id))

    async def progress(self, job_id: str) -> Progress:
        """How far the file of `generate(job_id=...)` is; from another task."""
        return await self.send(calls.progress(job_id))

    async def generate(
        self,
        out: Path,
        *,
        audio: Upload | None = None,
        text: str = "",
        portrait: Upload | None = None,
        captions: bool = False,
        job_id: str = "",
        **options: object,
    ) -> Generated:
        """Make a file and hold the connection meanwhile; it appears at `out` when it is complete.

        Args:
            out: Where the file goes.
            audio: Speech: the path of a file, or its bytes.
            text: What is said, instead of `audio`.
            portrait: A picture or short clip to use, kept by the service as a temporary presenter.
            captions: Return the captions of a text, too.
            job_id: 8 to 64 of `A-Za-z0-9._-`, for `progress`.
            **options: Further fields of `POST /generate`: `avatar_id`, `fps`, `chunk_frames`, `seed`, `normalise`.

        Raises:
            ClientError: No file was made; there is nothing at `out` that was not there.
        """
        fields = form_options(options)
        if not captions:
            return await self._fetch(calls.generate(audio, text, portrait, fields, job_id), out)
        made, path = await self.send(calls.generate_kept(audio, text, portrait, fields, job_id))
        await self._fetch(calls.kept_file(path), out)
        return made

    async def send(self, call: Call[T]) -> T:
        """Carry one call out: the way to routes for which there is no method.

        Raises:
            ClientError: See there.
        """
        async with self._answering(call) as answer:
            await answer.aread()
            return result_of(call, answer)

    async def _fetch(self, call: Call[T], out: Path) -> T:
        """Write the file that answers a call, or that lies where the answer says."""
        async with self._answering(call) as answer:
            if (linked := call.linked(answer)) is None:
                return await self._written(call, answer, out)
        return await self._fetch(linked, out)

    async def _written(self, call: Call[T], answer: httpx.Response, out: Path) -> T:
        if answer.is_error:
            await answer.aread()
            check(answer)
        check_video(answer)
        part = await asyncio.to_thread(PartFile, out)
        try:
            async for data in answer.aiter_bytes():
                await asyncio.to_thread(part.write, data)
            made = result_of(call, answer)
            await asyncio.to_thread(part.keep)
        finally:
            await asyncio.to_thread(part.discard)
        return made

    @asynccontextmanager
    async def _answering(self, call: Call[Any]) -> AsyncIterator[httpx.Response]:
        async with AsyncExitStack() as stack:
            arguments = await asyncio.to_thread(
                call.arguments, self.url, self._headers, stack.enter_context(ExitStack())
            )
            try:
                yield await stack.enter_async_context(self._http.stream(**arguments))
            except httpx.HTTPError as error:
                raise no_answer(error) from error


class AsyncVideos:
    """Videos that a service makes in the background: `AsyncClient.videos`.

    Args:
        client: Sends.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(
        self,
        *,
        audio: Upload | None = None,
        text: str = "",
        portrait: Upload | None = None,
        metadata: Mapping[str, str] | None = None,
        idempotency_key: str = "",
        **options: object,
    ) -> Video:
        """Begin one and return at once.

        Args:
            audio: Speech: the path of a file, or its bytes.
            text: What is said, instead of `audio`.
            portrait: A picture or short clip to use.
            metadata: At most 16 pairs of text, answered with the video.
            idempotency_key: The same key with the same request makes no second video.
            **options: Further fields of `POST /v1/videos`: `avatar_id`, `fps`, `seed`, `expires_in`, ...
        """
        call = calls.create_video(audio, text, portrait, form_options(options), metadata, idempotency_key)
        return await self._client.send(call)

    async def get(self, video_id: str) -> Video:
        """How far it is."""
        return await self._client.send(calls.video(video_id))

    async def list(self, limit: int = 20, after: str = "", *, oldest_first: bool = False) -> VideoPage:
        """A page of at most `limit` (1 to 100) videos, those behind the id `after`."""
        return await self._client.send(calls.videos(limit, after, oldest_first=oldest_first))

    async def wait(
        self, video_id: str, timeout_s: float | None = None, on_change: Callable[[Video], None] = lambda video: None
    ) -> Video:
        """Ask until it is completed, as often as the service wants to be asked.

        Args:
            video_id: Which video.
            timeout_s: Longest time in seconds; None: as long as it takes.
            on_change: Told each answer.

        Raises:
            VideoFailedError: It ended without a file.
            TooLateError: It had not ended in time.
            ClientError: The service does not know it, or the like. Moments without an answer are waited out.
        """
        client = self._client
        wait = Wait(video_id, client._clock(), timeout_s)
        while True:
            seen: Video | ClientError
            try:
                seen = await self.get(video_id)
            except ClientError as error:
                seen = error
            else:
                on_change(seen)
                if seen.ended:
                    return with_file(seen)
            await client._pause(wait.after(seen, client._clock()))

    async def download(self, video_id: str, out: Path) -> None:
        """Write the file of a completed video; it appears at `out` when it is complete."""
        await self._client._fetch(calls.video_content(video_id), out)

    async def cancel(self, video_id: str) -> Video:
        """Stop it; it stays in the list."""
        return await self._client.send(calls.cancel_video(video_id))

    async def retry(self, video_id: str) -> Video:
        """Make a failed or cancelled one after all."""
        return await self._client.send(calls.retry_video(video_id))

    async def delete(self, video_id: str) -> None:
        """Forget it and its file."""
        await self._client.send(calls.delete_video(video_id))


class AsyncLive:
    """Live sessions: `AsyncClient.live`. The peer connection is the caller's (a browser, aiortc, GStreamer, ...).

    Args:
        client: Sends.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def ice_servers(self) -> list[dict[str, Any]]:
        """STUN and TURN servers for the peer connection."""
        return await self._client.send(calls.ice_servers())

    async def offer(self, sdp: str, **options: object) -> LiveSession:
        """Begin a session.

        Args:
            sdp: The offer of the peer connection.
            **options: Further fields of the route: `avatar_id`, `fps`, `drive`, `echo`, `seed`.
        """
        return await self._client.send(calls.offer(sdp, offer_options(options)))

    async def speak(self, session_id: str, *, audio: Upload | None = None, text: str = "") -> Spoken:
        """Let it speak a file or a text, after all that it was given before."""
        return await self._client.send(calls.speak(session_id, audio, text))

    async def interrupt(self, session_id: str) -> Interrupted:
        """Stop speaking; what was queued is dropped."""
        return await self._client.send(calls.interrupt(session_id))

    async def stats(self, session_id: str) -> dict[str, Any]:
        """Numbers of the session."""
        return await self._client.send(calls.session_stats(session_id))

    async def close(self, session_id: str) -> None:
        """End it."""
        await self._client.send(calls.close(session_id))
