"""`liveanchor generate` without `--local`: by HTTP, to the LiveAnchor of `LIVEANCHOR_URL`, the one that runs here, or a new one."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import InvalidInputError, LiveAnchorError
from liveanchor.client import (
    BadArgumentError,
    Client,
    ClientError,
    NoAnswerError,
    RefusedError,
    StrangeAnswerError,
)
from liveanchor.client.call import address
from pipeline.config import SessionSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.expression.words import write_timeline
from serve_app.cli.presenter_ids import presenters_here

URL_ENV = "LIVEANCHOR_URL"
KEY_ENV = "LIVEANCHOR_API_KEY"
START_S = 300.0
POLL_S = 0.5

OnProgress = Callable[[int, int], None]
OnStatus = Callable[[str], None]


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


class ServiceRefusedError(InvalidInputError):
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
    looks: Looks = NEUTRAL_FACE,
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
        looks: What the face expresses, by seconds of the speech.
        on_progress: Told (pictures done, pictures in all); in all is 0 while unknown.
        on_status: Told what is going on before that.

    Returns:
        Pictures in the file.

    Raises:
        InvalidInputError: The service refused the input.
        RemoteError: The service cannot be reached or failed.
        ServiceFailedError: No service could be started.
    """
    with service(on_status) as url, client_of(url) as client:
        on_status("speaking")
        chosen = settings or SessionSettings()
        return _made(client, speech, out, avatar_id, portrait, chosen, seed, normalise, looks, on_progress)


def presenters_there() -> list[tuple[str, str]]:
    """Id and name of every presenter of the service of `LIVEANCHOR_URL`; without one, of this machine.

    Raises:
        InvalidInputError: `LIVEANCHOR_URL` is no address.
        RemoteError: The service does not answer.
    """
    if not (url := named_service()):
        return presenters_here()
    with client_of(url) as client:
        return [(one.avatar_id, one.name) for one in client.presenters()]


def running_service() -> str:
    """The address of the LiveAnchor of `LIVEANCHOR_URL`, or of the one that runs on the Ray cluster of this machine.

    Raises:
        InvalidInputError: `LIVEANCHOR_URL` is no address.
        RemoteError: There is none.
    """
    if named := named_service():
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


@contextmanager
def client_of(url: str, names: Mapping[str, str] | None = None) -> Iterator[Client]:
    """A client of a service, with the key of `LIVEANCHOR_API_KEY`; its errors leave the block in the words of the command line.

    Args:
        url: Address of the service.
        names: What the client's arguments are called here, for messages.

    Raises:
        InvalidInputError: The service refused, or an argument cannot be.
        RemoteError: The service cannot be reached or failed.
    """
    try:
        with Client(url, os.environ.get(KEY_ENV, "")) as client:
            yield client
    except BadArgumentError as error:
        here = {"url": URL_ENV, "api_key": KEY_ENV} | dict(names or {})
        raise InvalidInputError(here.get(error.param or "", error.param or ""), error.got, error.allowed) from error
    except RefusedError as error:
        raise ServiceRefusedError(str(error.problem.get("title", "")), error.message) from error
    except ClientError as error:
        raise RemoteError(url, _what_failed(error)) from error


def named_service() -> str:
    """The address in `LIVEANCHOR_URL`; empty without one.

    Raises:
        InvalidInputError: It is no address.
    """
    named = os.environ.get(URL_ENV, "")
    if not named:
        return ""
    try:
        return address(named)
    except BadArgumentError as error:
        raise InvalidInputError(URL_ENV, error.got, error.allowed) from error


@contextmanager
def service(on_status: OnStatus = lambda text: None) -> Iterator[str]:
    """The address of a LiveAnchor; one that had to be started runs on a cluster of its own and ends with the block."""
    if named := named_service():
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


def _made(
    client: Client,
    speech: Speech,
    out: Path,
    avatar_id: str | None,
    portrait: Path | None,
    settings: SessionSettings,
    seed: int,
    normalise: bool,
    looks: Looks,
    on_progress: OnProgress,
) -> int:
    job_id = uuid.uuid4().hex
    with _progress(client, job_id, on_progress):
        made = client.generate(
            out,
            audio=speech.audio,
            text=speech.text,
            portrait=portrait,
            captions=speech.on_captions is not None,
            job_id=job_id,
            avatar_id=avatar_id,
            fps=settings.fps,
            chunk_frames=settings.chunk_frames,
            seed=seed,
            normalise=normalise,
            expressions=write_timeline(looks) or None,
        )
    if speech.on_captions is not None:
        speech.on_captions(made.captions)
    on_progress(made.frames, made.frames)
    return made.frames


def _what_failed(error: ClientError) -> str:
    named = bool(os.environ.get(URL_ENV))
    if isinstance(error, StrangeAnswerError):
        hint = f"; {URL_ENV} names this address" if named else ""
        return f"no LiveAnchor answers here (yet): {error.message}{hint}"
    if not isinstance(error, NoAnswerError):
        return f"{error.status}: {error.message}"
    if error.reached:
        return error.message
    if named:
        return (
            f"nobody answers ({error.message}); start a service with `liveanchor serve`, or correct or unset {URL_ENV}"
        )
    return f"the service that Ray reports does not answer ({error.message})"


@contextmanager
def _progress(client: Client, job_id: str, on_progress: OnProgress) -> Iterator[None]:
    """Ask how far the job is while its file is being waited for."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            try:
                found = client.progress(job_id)
            except ClientError:
                continue  # progress is a courtesy: the job itself says when something is wrong
            if found.total and not done.is_set():
                on_progress(found.done, found.total)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
