"""The client for plain code. `async_client.py` is its twin for asyncio; what they send stands in `calls.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
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


class Client:
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
        http: httpx.Client | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.url = address(url)
        self._headers = authorization(api_key)
        self._http = http or httpx.Client()
        self._own = http is None
        self._clock = clock
        self._pause = pause or threading.Event().wait
        self.videos = Videos(self)
        self.live = Live(self)

    def __enter__(self) -> Client:
        """Close the connections at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; an httpx client that was given stays open."""
        if self._own:
            self._http.close()

    def version(self) -> str:
        """Version of the service.

        Raises:
            ClientError: As every call: the service refused or failed, or cannot be reached.
        """
        return self.send(calls.version())

    def ready(self) -> None:
        """Return where the whole graph answers, raise otherwise."""
        self.send(calls.ready())

    def presenters(self) -> tuple[Presenter, ...]:
        """All presenters that this caller may use."""
        return self.send(calls.presenters())

    def register(self, portrait: Upload, *, name: str = "", consent: str = "") -> Presenter:
        """Make a presenter that stays until it is removed; the same picture gives the same one.

        Args:
            portrait: A picture or a short video.
            name: For people; that of the file where it is empty.
            consent: Who agreed that the face is animated, and for what; kept with the presenter. Some services insist on it.
        """
        return self.send(calls.register(portrait, name, consent))

    def remove_presenter(self, avatar_id: str) -> None:
        """Remove a presenter, with what was agreed to about it."""
        self.send(calls.remove_presenter(avatar_id))

    def progress(self, job_id: str) -> Progress:
        """How far the file of `generate(job_id=...)` is; from another thread."""
        return self.send(calls.progress(job_id))

    def generate(
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
            return self._fetch(calls.generate(audio, text, portrait, fields, job_id), out)
        made, path = self.send(calls.generate_kept(audio, text, portrait, fields, job_id))
        self._fetch(calls.kept_file(path), out)
        return made

    def send(self, call: Call[T]) -> T:
        """Carry one call out: the way to routes for which there is no method.

        Raises:
            ClientError: See there.
        """
        with self._answering(call) as answer:
            answer.read()
            return result_of(call, answer)

    def _fetch(self, call: Call[T], out: Path) -> T:
        """Write the file that answers a call, or that lies where the answer says."""
        with self._answering(call) as answer:
            if (linked := call.linked(answer)) is None:
                return self._written(call, answer, out)
        return self._fetch(linked, out)

    def _written(self, call: Call[T], answer: httpx.Response, out: Path) -> T:
        if answer.is_error:
            answer.read()
            check(answer)
        check_video(answer)
        part = PartFile(out)
        try:
            for data in answer.iter_bytes():
                part.write(data)
            made = result_of(call, answer)
            part.keep()
        finally:
            part.discard()
        return made

    @contextmanager
    def _answering(self, call: Call[Any]) -> Iterator[httpx.Response]:
        with ExitStack() as stack:
            arguments = call.arguments(self.url, self._headers, stack)
            try:
                yield stack.enter_context(self._http.stream(**arguments))
            except httpx.HTTPError as error:
                raise no_answer(error) from error


class Videos:
    """Videos that a service makes in the background: `Client.videos`.

    Args:
        client: Sends.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(
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
        return self._client.send(call)

    def get(self, video_id: str) -> Video:
        """How far it is."""
        return self._client.send(calls.video(video_id))

    def list(self, limit: int = 20, after: str = "", *, oldest_first: bool = False) -> VideoPage:
        """A page of at most `limit` (1 to 100) videos, those behind the id `after`."""
        return self._client.send(calls.videos(limit, after, oldest_first=oldest_first))

    def wait(
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
                seen = self.get(video_id)
            except ClientError as error:
                seen = error
            else:
                on_change(seen)
                if seen.ended:
                    return with_file(seen)
            client._pause(wait.after(seen, client._clock()))

    def download(self, video_id: str, out: Path) -> None:
        """Write the file of a completed video; it appears at `out` when it is complete."""
        self._client._fetch(calls.video_content(video_id), out)

    def cancel(self, video_id: str) -> Video:
        """Stop it; it stays in the list."""
        return self._client.send(calls.cancel_video(video_id))

    def retry(self, video_id: str) -> Video:
        """Make a failed or cancelled one after all."""
        return self._client.send(calls.retry_video(video_id))

    def delete(self, video_id: str) -> None:
        """Forget it and its file."""
        self._client.send(calls.delete_video(video_id))


class Live:
    """Live sessions: `Client.live`. The peer connection is the caller's (a browser, aiortc, GStreamer, ...).

    Args:
        client: Sends.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def ice_servers(self) -> list[dict[str, Any]]:
        """STUN and TURN servers for the peer connection."""
        return self._client.send(calls.ice_servers())

    def offer(self, sdp: str, **options: object) -> LiveSession:
        """Begin a session.

        Args:
            sdp: The offer of the peer connection.
            **options: Further fields of the route: `avatar_id`, `fps`, `drive`, `echo`, `seed`.
        """
        return self._client.send(calls.offer(sdp, offer_options(options)))

    def speak(self, session_id: str, *, audio: Upload | None = None, text: str = "") -> Spoken:
        """Let it speak a file or a text, after all that it was given before."""
        return self._client.send(calls.speak(session_id, audio, text))

    def interrupt(self, session_id: str) -> Interrupted:
        """Stop speaking; what was queued is dropped."""
        return self._client.send(calls.interrupt(session_id))

    def stats(self, session_id: str) -> dict[str, Any]:
        """Numbers of the session."""
        return self._client.send(calls.session_stats(session_id))

    def close(self, session_id: str) -> None:
        """End it."""
        self._client.send(calls.close(session_id))
