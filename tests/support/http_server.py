"""The HTTP application over a host in this process, behind a real server on a real socket."""

from __future__ import annotations

import asyncio
import io
import threading
import time
import wave
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn
from fastapi import FastAPI

from deployments.config import SessionHostSettings
from deployments.graph.calls import Distribution, StageStats
from deployments.graph.errors import NotReadyError
from deployments.host.avatar_commands import AvatarCommand, Left
from deployments.host.avatar_consents import AvatarConsents
from deployments.host.avatar_owners import AvatarOwners
from deployments.host.avatars_in_use import AvatarsInUse
from deployments.host.command import Answer
from deployments.host.file_job import prepare_job, run_job, with_speech
from deployments.host.hosted_avatars import HostedAvatars
from deployments.host.jobs import FileJob, HostStats, JobDone, JobEvent, JobProgress
from deployments.host.node_copies import Dropped, drop_copies
from deployments.limits import ConsentSettings, LimitSettings
from deployments.stores import StoreSettings
from deployments.video_jobs.settings import VideoJobSettings
from pipeline.avatars.store import AvatarStore
from pipeline.config import EncoderSettings
from pipeline.fetch.fetcher import Resolve, system_addresses
from pipeline.fetch.settings import FetchSettings
from pipeline.live.settings import LiveSettings
from pipeline.media.signing import Sign
from pipeline.mini.registration import make_avatar, register_bytes
from pipeline.stage_meter import StageMeter
from pipeline.types import Avatar
from pipeline.voices.voice import Voice
from serve_app.access.settings import KeySettings, QuotaSettings
from serve_app.http.api import create_api
from serve_app.http.problems.translate import PROBLEM_TYPE
from serve_app.http.settings import ApiSettings, HttpSettings
from tests.support.fake_live_host import FakeLiveHost
from tests.support.fake_stages import FakeStages
from tests.support.fake_voice import FakeVoice
from tests.support.in_process_jobs import InProcessJobs


def wav(seconds: float = 0.4, rate_hz: int = 16_000) -> bytes:
    """A tone, 16 bit mono."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((np.sin(np.arange(round(seconds * rate_hz)) / 9) * 9000).astype("<i2").tobytes())
    return buffer.getvalue()


def small_avatar(name: str = "Test presenter", shade: int = 90) -> Avatar:
    """A grey card with landmarks where a face could be."""
    canvas = np.full((160, 128, 3), shade, np.uint8)
    angles = np.linspace(0, 2 * np.pi, 468, endpoint=False)
    landmarks = np.stack([64 + 24 * np.cos(angles), 70 + 30 * np.sin(angles), np.zeros(468)], 1).astype(np.float32)
    return make_avatar(canvas, landmarks, name)


class NoFaces:
    """A face detector for pictures that never get that far, or that hold no face."""

    def detect(self, *args: Any, **kwargs: Any) -> list[Any]:
        return []


def head_of(length: int, path: str = "/generate") -> bytes:
    """The head of a form that is sent by hand; its boundary is `b`."""
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: x",
        "Content-Type: multipart/form-data; boundary=b",
        f"Content-Length: {length}",
        "",
        "",
    )
    return "\r\n".join(lines).encode()


class Gate:
    """Stands in for `FakeStages.render_gate`; opened from any thread."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def set(self) -> None:
        self._open.set()

    async def wait(self) -> None:
        while not self._open.is_set():  # noqa: ASYNC110  # it is set from another thread, and this wait must end when cancelled
            await asyncio.sleep(0.005)


class InProcessHost:
    """Implements `serve_app.http.host.Host` with the same parts as `SessionHost`, without Ray.

    Attributes:
        stages: Answer at once, or wait for `stages.render_gate`.
        ended: Jobs by how they ended.
        registered: Portraits that came, and the names.
        live: Live sessions.
        voice: Speaks the text of jobs.
    """

    def __init__(
        self,
        folder: Path,
        settings: SessionHostSettings | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = AvatarStore(folder / "avatars", wall_clock=wall_clock)
        self.default = self.store.put(small_avatar())
        self.stages: Any = FakeStages()
        self.settings = settings or SessionHostSettings(encoder=EncoderSettings(prefer="x264", file_preset="ultrafast"))
        self.make_gallery: Callable[[], None] = lambda: None
        self.in_use = AvatarsInUse(self.store, self.settings.limits.temporary_avatar_ttl_s)
        self.ended: Counter[str] = Counter()
        self.avatars = HostedAvatars(
            self.store,
            self.in_use,
            self._register,
            lambda: self.store.get(self.default.avatar_id),
            lambda: self.make_gallery(),
            "mini",
            AvatarOwners(str(self.store.root)),
            AvatarConsents(str(self.store.root), wall_clock),
        )
        self.registered: list[tuple[bytes, str]] = []
        self.register: Callable[[bytes, str], Avatar] = lambda data, name: register_bytes(data, NoFaces(), name)  # type: ignore[arg-type]
        self.is_ready = True
        self.dropped: list[str] = []
        self.copies_left: tuple[Left, ...] = ()
        self.live: Any = FakeLiveHost()
        self.voice: Voice = FakeVoice()
        self.sign: Sign | None = None
        self.failure: Exception | None = None
        self.jobs: dict[str, JobProgress] = {}

    async def generate(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        outcome = "failed"
        self.jobs[job.job_id] = JobProgress(0, 0)
        try:
            if self.failure is not None:
                raise self.failure
            with self.avatars.using(job.avatar_id):
                job, cues = await with_speech(job, self.voice, self.settings)
                prepared = await asyncio.to_thread(prepare_job, job, self.avatars.speaker, self.settings, cues)
                events = run_job(prepared, StageMeter(self.stages), self.settings.encoder, {}, self.sign)
                async with aclosing(events):
                    async for event in events:
                        if isinstance(event, JobProgress):
                            self.jobs[job.job_id] = event
                        outcome = "finished" if isinstance(event, JobDone) else outcome
                        yield event
        except (asyncio.CancelledError, GeneratorExit):
            outcome = outcome if outcome == "finished" else "cancelled"
            raise
        finally:
            self.jobs.pop(job.job_id, None)
            self.ended[outcome] += 1

    async def progress(self, job_id: str) -> JobProgress | None:
        return self.jobs.get(job_id)

    async def handle(self, command: AvatarCommand[Answer]) -> Answer:
        return await self.avatars.handle(command)

    async def drop_avatars(self, avatar_ids: Sequence[str]) -> Dropped:
        drop_copies(str(self.store.root), avatar_ids)
        self.dropped += avatar_ids
        return Dropped(("node here",), self.copies_left)

    async def ready(self) -> None:
        if not self.is_ready:
            raise NotReadyError("a stage does not answer yet")

    async def host_stats(self) -> list[HostStats]:
        ended = self.ended
        return [HostStats("host-1", dict(self.jobs), ended["finished"], ended["cancelled"], ended["failed"], {})]

    async def stage_stats(self) -> list[StageStats]:
        waits = Distribution((10.0, 100.0), (1, 1, 0), 60.5)
        return [StageStats("renderer", "r-1", 3, 2, 2, 24, 0, {"cancelled": 1}, wait_ms=waits)]

    def _register(self, data: bytes, name: str) -> Avatar:
        self.registered.append((data, name))
        return self.register(data, name)


class Served:
    """A running server, its host, and a client.

    Attributes:
        host: Does the work.
        client: Talks to it.
        port: Of the server.
        api: The application.
        jobs: Makes videos in the background.
    """

    def __init__(self, host: InProcessHost, client: httpx.Client, port: int, api: FastAPI, jobs: InProcessJobs) -> None:
        self.host = host
        self.client = client
        self.port = port
        self.api = api
        self.jobs = jobs

    def generate(self, audio: bytes | None = None, path: str = "/generate", **fields: object) -> httpx.Response:
        data = {name: str(value) for name, value in fields.items()}
        files = {"audio": ("speech.wav", wav() if audio is None else audio, "audio/wav")}
        return self.client.post(path, files=files, data=data)


@contextmanager
def running(api: FastAPI) -> Iterator[int]:
    """Serve an application on a free port of this machine, in a thread."""
    server = uvicorn.Server(
        uvicorn.Config(api, port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(60)


def api_settings(**settings: Any) -> ApiSettings:
    """The ingress's settings, each given by its own name and put into its group."""
    groups = {
        "limits": LimitSettings, "stores": StoreSettings, "http": HttpSettings, "live": LiveSettings,
        "jobs": VideoJobSettings, "keys": KeySettings, "quotas": QuotaSettings, "fetch": FetchSettings,
        "consent": ConsentSettings,
    }  # fmt: skip
    values: dict[str, Any] = {}
    for name, value in settings.items():
        group = next((group for group, model in groups.items() if name in model.model_fields), "")
        (values.setdefault(group, {}) if group else values)[name] = value
    return ApiSettings.model_validate(values)


@contextmanager
def serving(
    folder: Path, host: InProcessHost | None = None, resolve: Resolve = system_addresses, **settings: Any
) -> Iterator[Served]:
    """An application with its own host, on its own port."""
    host = host or InProcessHost(folder)
    chosen = api_settings(**{"results": str(folder / "results"), "uploads": str(folder / "uploads")} | settings)
    jobs = InProcessJobs(folder, host, chosen)
    api = create_api(host, host.live, chosen, resolve=resolve, jobs=jobs)
    with running(api) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield Served(host, client, port, api, jobs)
    jobs.close()


def wait_for(condition: Callable[[], Any], timeout_s: float = 180.0) -> None:
    """Poll until it is true; a busy machine may take its time."""
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        pause.wait(0.005)


def assert_problem(
    answer: httpx.Response, status: int, code: str | None = None, field: str | None = None
) -> dict[str, Any]:
    """The answer is a problem document that is complete and consistent."""
    assert answer.status_code == status, (answer.status_code, answer.text[:500])
    assert answer.headers["content-type"] == PROBLEM_TYPE
    found: dict[str, Any] = answer.json()
    assert found["status"] == status and found["title"] and found["detail"]
    assert found["type"] == f"/problems/{found['code']}"
    assert found["request_id"] == answer.headers["x-request-id"]
    if code is not None:
        assert found["code"] == code, found
    if field is not None:
        assert found["field"] == field, found
        assert found["allowed"] and "got" in found
    return found
