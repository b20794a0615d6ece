"""`liveanchor generate` without `--local`: by HTTP, to the LiveAnchor of `LIVEANCHOR_URL`, the one that runs here, or a new one."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from kernels.errors import InvalidInputError, LiveAnchorError, first_line
from pipeline.config import SessionSettings
from serve_app.cli.presenter_ids import presenters_here

URL_ENV = "LIVEANCHOR_URL"
KEY_ENV = "LIVEANCHOR_API_KEY"
START_S = 300.0
CONNECT_S = 10.0
JOB_S = 3600.0 * 6
POLL_S = 0.5
VIDEO = "video/mp4"

OnProgress = Callable[[int, int], None]
OnStatus = Callable[[str], None]
Parts = dict[str, tuple[str | None, Any]]
"""Fields of a form: name of the file, None for plain text, and content."""


class RemoteError(LiveAnchorError):
    """The service answered with an error that is not the caller's, or not at all.

    Args:
        url: Which service.
        reason: What it said.
    """

    code = "remote_failed"
    retryable = True

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        """Say it in one line, with the address and the reason."""
        return f"{self.url}: {self.reason}"


@dataclass(frozen=True)
class Speech:
    """Says what is spoken.

    Attributes:
        audio: A file with speech; None where there is text.
        text: Text that the service speaks.
        on_captions: Given the captions of a text as WebVTT; None where they are not wanted.
    """

    audio: Path | None
    text: str = ""
    on_captions: Callable[[str], None] | None = None


def generate_remote(
    speech: Speech,
    out: Path,
    *,
    avatar_id: str | None = None,
    portrait: Path | None = None,
    settings: SessionSettings | None = None,
    seed: int = 0,
    normalise: bool = False,
    on_progress: OnProgress = lambda done, total: None,
    on_status: OnStatus = lambda text: None,
) -> int:
    """Make one talking mp4 through the graph; it appears at `out` when it is complete.

    Args:
        speech: The speech.
        out: Where the file goes.
        avatar_id: A presenter of the service; the default presenter when None.
        portrait: A portrait or short video to use instead; the service keeps it as a temporary presenter.
        settings: `fps` and `chunk_frames` travel; everything else is the service's own.
        seed: Head motion and blinks are a function of it.
        normalise: Bring the voice to -23 LUFS.
        on_progress: Told (pictures done, pictures in all); in all is 0 while unknown.
        on_status: Told what is going on before that.

    Returns:
        Pictures in the file.

    Raises:
        InvalidInputError: The service refused the input.
        RemoteError: The service cannot be reached or failed.
        ServiceFailedError: No service could be started.
    """
    with service(on_status) as url:
        on_status("speaking")
        return _post(url, speech, out, avatar_id, portrait, settings or SessionSettings(), seed, normalise, on_progress)


def presenters_there() -> list[tuple[str, str]]:
    """Id and name of every presenter of the service of `LIVEANCHOR_URL`; without one, of this machine.

    Raises:
        InvalidInputError: `LIVEANCHOR_URL` is no address.
        RemoteError: The service does not answer.
    """
    if not (url := _named_service()):
        return presenters_here()
    try:
        return [(str(one["avatar_id"]), str(one["name"])) for one in ask(url, "GET", "/avatars")["avatars"]]
    except (LookupError, TypeError) as error:
        raise RemoteError(url, "no LiveAnchor answers here: its list of presenters cannot be read") from error


def running_service() -> str:
    """The address of the LiveAnchor of `LIVEANCHOR_URL`, or of the one that runs on the Ray cluster of this machine.

    Raises:
        InvalidInputError: `LIVEANCHOR_URL` is no address.
        RemoteError: There is none.
    """
    if named := _named_service():
        return named
    from serve_app.cluster.own import connected, details
    from serve_app.cluster.status import service_url

    with connected() as cluster:
        found = None if cluster is None else service_url(details(cluster))
    if found is None:
        raise RemoteError(
            "this machine", f"no LiveAnchor runs here; start it with `liveanchor serve`, or name one in {URL_ENV}"
        )
    return found


def ask(url: str, method: str, path: str, params: Mapping[str, str] | None = None) -> Any:
    """Ask a service for something small, and return what its JSON holds.

    Args:
        url: Address of the service.
        method: HTTP method.
        path: Route, from its slash on.
        params: What stands behind the question mark.

    Raises:
        InvalidInputError: The service refused.
        RemoteError: The service cannot be reached or failed.
    """
    try:
        answer = httpx.request(method, f"{url}{path}", params=params, headers=_key(), timeout=CONNECT_S)
        if answer.is_error:
            raise _refusal(url, answer)
        return answer.json()
    except httpx.HTTPError as error:
        raise RemoteError(url, _what_failed(error)) from error
    except ValueError as error:
        raise RemoteError(url, "no LiveAnchor answers here: its answer is no JSON") from error


def _named_service() -> str:
    """The address in `LIVEANCHOR_URL`; empty without one."""
    named = os.environ.get(URL_ENV, "").rstrip("/")
    if named and not named.startswith(("http://", "https://")):
        raise InvalidInputError(URL_ENV, named, "an address such as http://127.0.0.1:8000")
    return named


def _key() -> dict[str, str]:
    """The header with the key of `LIVEANCHOR_API_KEY`; none without one.

    Raises:
        InvalidInputError: It is nothing that a key can be.
    """
    key = os.environ.get(KEY_ENV, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InvalidInputError(KEY_ENV, "a text that is no key", "a key as `liveanchor keys create` prints it")
    return {"Authorization": f"Bearer {key}"} if key else {}


@contextmanager
def service(on_status: OnStatus = lambda text: None) -> Iterator[str]:
    """The address of a LiveAnchor; one that had to be started runs on a cluster of its own and ends with the block."""
    if named := _named_service():
        yield named
        return
    from serve_app.cluster.own import connected, details, free_port, private, submit, wait_until_running
    from serve_app.cluster.status import is_deployed
    from serve_app.config.declare import fit_to, serve_document
    from serve_app.config.settings import load_config

    on_status("connecting to Ray")
    with connected() as cluster:
        if cluster is not None and is_deployed(details(cluster)):
            yield wait_until_running(cluster, START_S, on_status)
            return
    on_status("starting Ray")  # of our own: a cluster of others that does not serve LiveAnchor is not ours to change
    with private() as cluster:
        submit(cluster, serve_document(fit_to(load_config(), cluster.gpus), "127.0.0.1", free_port()))
        yield wait_until_running(cluster, START_S, on_status)


def _post(
    url: str,
    speech: Speech,
    out: Path,
    avatar_id: str | None,
    portrait: Path | None,
    settings: SessionSettings,
    seed: int,
    normalise: bool,
    on_progress: OnProgress,
) -> int:
    job_id = uuid.uuid4().hex
    fields = {
        "avatar_id": avatar_id or "",
        "fps": f"{settings.fps:g}",
        "chunk_frames": str(settings.chunk_frames),
        "seed": str(seed),
        "normalise": "true" if normalise else "false",
    } | ({"prompt": speech.text} if speech.audio is None else {})
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    timeout = httpx.Timeout(JOB_S, connect=CONNECT_S)
    try:
        with ExitStack() as stack:
            uploads = {
                name: path for name, path in (("audio", speech.audio), ("portrait", portrait)) if path is not None
            }
            parts: Parts = {name: (None, value) for name, value in fields.items()}
            parts |= {name: (path.name, stack.enter_context(path.open("rb"))) for name, path in uploads.items()}
            stack.enter_context(_progress(url, job_id, on_progress))
            client = stack.enter_context(httpx.Client(timeout=timeout))
            answer, frames = stack.enter_context(_made(client, url, parts, job_id, speech.on_captions))
            if (kind := answer.headers.get("content-type", "")) != VIDEO:
                raise RemoteError(url, f"no LiveAnchor answers here: {kind or 'something without a type'}, not {VIDEO}")
            with part.open("wb") as file:
                for data in answer.iter_bytes():
                    file.write(data)
        part.replace(out)
    except httpx.HTTPError as error:
        raise RemoteError(url, _what_failed(error)) from error
    finally:
        part.unlink(missing_ok=True)
    on_progress(frames, frames)
    return frames


@contextmanager
def _made(
    client: httpx.Client, url: str, parts: Parts, job_id: str, on_captions: Callable[[str], None] | None
) -> Iterator[tuple[httpx.Response, int]]:
    """The answer that holds the file, and its number of pictures. Captions come with the address of a file, so then it is kept."""
    headers = {"X-Request-Id": job_id} | _key()
    if on_captions is None:
        with client.stream("POST", f"{url}/generate", files=parts, headers=headers) as answer:
            _check(url, answer)
            yield answer, int(answer.headers.get("X-Frames", 0))
        return
    made = client.post(f"{url}/api/generate", files=parts, headers=headers)
    _check(url, made)
    try:
        facts = made.json()
        address, frames, captions = f"{url}{facts['url']}", int(facts["frames"]), str(facts["captions"])
    except (ValueError, LookupError, TypeError) as error:
        raise RemoteError(url, "no LiveAnchor answers here that makes captions") from error
    with client.stream("GET", address, headers=_key()) as answer:
        _check(url, answer)
        yield answer, frames
    on_captions(captions)


def _check(url: str, answer: httpx.Response) -> None:
    if answer.is_error:
        answer.read()
        raise _refusal(url, answer)


def _what_failed(error: httpx.HTTPError) -> str:
    said = first_line(error, named=True)
    if not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return said
    if os.environ.get(URL_ENV):
        return f"nobody answers ({said}); start a service with `liveanchor serve`, or correct or unset {URL_ENV}"
    return f"the service that Ray reports does not answer ({said})"


@contextmanager
def _progress(url: str, job_id: str, on_progress: OnProgress) -> Iterator[None]:
    """Ask how far the job is while its file is being waited for."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            try:
                found = httpx.get(f"{url}/jobs/{job_id}", headers=_key(), timeout=CONNECT_S).json()
                frames, total = int(found["frames_done"]), int(found["frames"])
            except (httpx.HTTPError, ValueError, KeyError, TypeError):
                continue  # progress is a courtesy: the job itself says when something is wrong
            if total and not done.is_set():
                on_progress(frames, total)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _refusal(url: str, answer: httpx.Response) -> LiveAnchorError:
    """The service's problem document as one of our errors."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        kind = answer.headers.get("content-type", "").partition(";")[0]
        said = (
            " ".join(answer.text[:100].split())
            if kind == "text/plain"
            else f"{answer.reason_phrase}, {kind or 'no type'}"
        )
        named = f"; {URL_ENV} names this address" if os.environ.get(URL_ENV) else ""
        return RemoteError(url, f"no LiveAnchor answers here (yet): {answer.status_code}, {said}{named}")
    problem = answer.json()
    detail = str(problem.get("detail", ""))
    if 400 <= answer.status_code < 500:
        return RefusedError(str(problem.get("title", "")), detail)
    return RemoteError(url, f"{answer.status_code}: {detail}")


class RefusedError(InvalidInputError):
    """The service refused the input; its own words are the message.

    Args:
        title: The problem's title.
        detail: The problem's detail.
    """

    code = "refused"

    def __init__(self, title: str, detail: str) -> None:
        super().__init__("request", title, "see the message", detail)
        self.args = (title, detail)

    def __str__(self) -> str:
        """The service's own words."""
        return self.detail
