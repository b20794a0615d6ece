"""What all routes share."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass, field

from starlette.requests import Request

from deployments.graph.errors import StageLostError
from deployments.graph.payload import Payload
from deployments.host.avatar_commands import RegisterAvatar
from deployments.host.counted import counted
from deployments.host.jobs import PIECE_BYTES, FileJob, JobBytes, JobDone, JobEvent, JobStarted
from pipeline.avatars.quota import AvatarQuota
from pipeline.avatars.store import AvatarSummary
from pipeline.media.results_store import ResultsStore
from serve_app.http.capacity import Hold, JobGate, UploadBudget
from serve_app.http.files.fields import JobForm
from serve_app.http.files.file_buffer import FileBuffer
from serve_app.http.host import Host
from serve_app.http.metrics import HttpMetrics
from serve_app.http.settings import ApiSettings


@dataclass(frozen=True)
class Services:
    """One application's parts.

    Attributes:
        host: Does the work.
        settings: What callers may ask for.
        results: Finished files.
        gate: Jobs at once.
        budget: Bytes of uploads at once.
        metrics: Counts.
        arrivals: Ids of jobs that this process has not handed on yet.
    """

    host: Host
    settings: ApiSettings
    results: ResultsStore
    gate: JobGate
    budget: UploadBudget
    metrics: HttpMetrics
    arrivals: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def receiving(self) -> Iterator[Hold]:
        """Room for one upload, refused at once when all places for work are taken; it takes none, so slow uploads keep nobody out.

        Raises:
            BusyError: All places are taken.
        """
        self.gate.check()
        try:
            with self.budget.hold() as hold:
                yield hold
        finally:
            self.metrics.load(self.gate.active, self.budget.held)

    @contextmanager
    def working(self) -> Iterator[None]:
        """A place for the work on an upload that has come.

        Raises:
            BusyError: Others were faster.
        """
        try:
            with self.gate.slot():
                self.metrics.load(self.gate.active, self.budget.held)
                yield
        finally:
            self.metrics.load(self.gate.active, self.budget.held)

    def arriving(self, job_id: str) -> AbstractContextManager[None]:
        """A job that this process has not handed on yet."""
        return counted(self.arrivals, job_id)

    async def register(self, data: bytes, name: str, file_name: str = "", temporary: bool = False) -> AvatarSummary:
        """Make a presenter, where there is room for one more; temporary presenters that nobody uses make some.

        Args:
            data: The portrait.
            name: What the caller calls it; a presenter that exists takes it over.
            file_name: Its name where the caller gives none and it has none yet.
            temporary: It need not stay, unless it does already.

        Raises:
            AvatarsFullError: There is no room.
            PortraitError: The portrait is of no use.
        """
        limits = self.settings.limits
        quota = AvatarQuota(limits.max_avatars, limits.max_avatars_bytes)
        return await self.host.handle(RegisterAvatar(data, name or file_name, bool(name), temporary, quota))

    async def job_of(self, form: JobForm, job_id: str) -> FileJob:
        """The form as a job; a portrait becomes a temporary presenter first.

        Raises:
            PortraitError: The portrait is of no use.
        """
        avatar_id = form.avatar_id
        if form.portrait is not None:
            avatar_id = (await self.register(form.portrait, "", temporary=True)).avatar_id
        return FileJob(job_id, Payload(form.audio), avatar_id, form.session, form.seed, form.stream, form.normalise)


@dataclass(frozen=True)
class StartedJob:
    """A job whose success can honestly be announced.

    Attributes:
        facts: What the file will be.
        size_bytes: Of the file; 0 while unknown.
        pieces: The file; closing the iterator cancels the job.
    """

    facts: JobStarted
    size_bytes: int
    pieces: AsyncGenerator[bytes, None]


def new_job_id(request: Request, request_id: str) -> str:
    """The request's id when the client chose it, so that it can ask for progress; else an id that cannot be guessed."""
    return request_id if request.headers.get("x-request-id") == request_id else uuid.uuid4().hex


async def start_job(host: Host, job: FileJob) -> StartedJob:
    """Start a job and wait until an HTTP status can honestly be given.

    That is: for a streamed file, once its input has been accepted; for a finished file, once it is finished, so that a job which
    fails half-way is never answered 200. This process then holds the file, and nobody else does.

    Raises:
        LiveAnchorError: What the job answered.
    """
    events = host.generate(job)
    started: JobStarted | None = None
    done: JobDone | None = None
    file = FileBuffer()
    try:
        async for event in events:
            if isinstance(event, JobStarted):
                started = event
                file.clear()
                if job.stream:
                    return StartedJob(started, 0, _streamed(events))
            elif isinstance(event, JobBytes):
                file.write(event.offset, event.data)
            elif isinstance(event, JobDone):
                done = event
        await events.aclose()
        if started is None or done is None:
            raise StageLostError("session_host", 1)
        file.check_whole(done.size_bytes)
    except BaseException:
        file.clear()
        await events.aclose()
        raise
    return StartedJob(started, file.size, _finished(file))


async def _streamed(events: AsyncGenerator[JobEvent, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for event in events:
            if isinstance(event, JobBytes):
                yield event.data


async def _finished(file: FileBuffer) -> AsyncGenerator[bytes, None]:
    try:
        for data in file.drain(PIECE_BYTES):
            yield data
            await asyncio.sleep(0)  # sending need not wait for anything, and others have their turn
    finally:
        file.clear()
