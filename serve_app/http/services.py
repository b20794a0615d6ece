"""Parts of the application that all routes share, and the start of a job."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass, field, replace

from starlette.requests import Request

from deployments.graph.errors import StageLostError
from deployments.graph.payload import Payload
from deployments.host.avatar_commands import GetAvatar, ListAvatars, RegisterAvatar
from deployments.host.counted import counted
from deployments.host.finished_file import finished_file
from deployments.host.jobs import PIECE_BYTES, FileJob, JobBytes, JobEvent, JobStarted
from deployments.video_jobs.store import Jobs
from deployments.video_jobs.uploads import JobUploads
from pipeline.avatars.name import presenter_named
from pipeline.avatars.quota import AvatarQuota
from pipeline.avatars.store import AvatarSummary, is_avatar_id
from pipeline.fetch.fetcher import Fetcher
from pipeline.media.file_buffer import leaving
from pipeline.media.results.store import ResultsStore
from serve_app.access.caller import Caller
from serve_app.http.access.quotas import JOBS, Quotas
from serve_app.http.capacity import Hold, JobGate, UploadBudget, UploadGate
from serve_app.http.files.fields import JobForm
from serve_app.http.host import Host
from serve_app.http.metrics import HttpMetrics
from serve_app.http.settings import ApiSettings


@dataclass(frozen=True)
class Services:
    """Holds the parts of one application.

    Attributes:
        host: Does the work of jobs and presenters.
        settings: Settings: what callers may ask for, and limits.
        results: Store of finished files.
        jobs: Store of videos that are made in the background.
        uploads: What came with those.
        gate: Bounds the number of jobs at once.
        intake: Bounds the uploads that come in at once.
        budget: Bounds the bytes of uploads at once.
        fetcher: Fetches files that callers name by their address.
        quotas: Bounds on what one caller has at once.
        metrics: Counters and gauges of this process.
        arrivals: Ids of jobs that this process has not handed on yet.
    """

    host: Host
    settings: ApiSettings
    results: ResultsStore
    jobs: Jobs
    uploads: JobUploads
    gate: JobGate
    intake: UploadGate
    budget: UploadBudget
    fetcher: Fetcher
    quotas: Quotas
    metrics: HttpMetrics
    arrivals: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def receiving(self, now: bool = True) -> Iterator[Hold]:
        """Give room for one upload. It takes no place for work, so that a slow upload does not keep other jobs out.

        Args:
            now: Whether it is worked on as soon as it has come, and not some time later.

        Raises:
            BusyError: All places for work are taken already, so the upload would be in vain.
        """
        if now:
            self.gate.check()
        try:
            with self.budget.hold() as hold:
                yield hold
        finally:
            self.metrics.load(self.gate.active, self.budget.held)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Take a place for the work on an upload that has come.

        Raises:
            BusyError: Other uploads took the last places meanwhile.
        """
        try:
            with self.gate.slot():
                self.metrics.load(self.gate.active, self.budget.held)
                yield
        finally:
            self.metrics.load(self.gate.active, self.budget.held)

    def own_job(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Take one of the places for jobs that a caller has.

        Raises:
            QuotaExceededError: The caller has as many jobs as it may.
        """

        async def running() -> list[str]:
            return [job_id for one in await self.host.host_stats() for job_id in one.active_jobs]

        return self.quotas.one_more(JOBS, caller, running)

    def arriving(self, job_id: str) -> AbstractContextManager[None]:
        """Count a job as not handed on yet, as long as this is open."""
        return counted(self.arrivals, job_id)

    async def register(
        self,
        caller: Caller,
        data: bytes,
        name: str,
        file_name: str = "",
        temporary: bool = False,
        consent: str = "",
    ) -> AvatarSummary:
        """Make a presenter, where there is room for one more; unused temporary presenters are removed to make room.

        Args:
            caller: Whose presenter it is.
            data: Bytes of the portrait.
            name: Name that the caller gives; a presenter that exists already takes it over.
            file_name: Name that the presenter gets where the caller gives none and it has none yet.
            temporary: Whether the presenter may expire unused; a presenter that stays already goes on staying.
            consent: What was agreed to about the face; kept with the presenter.

        Raises:
            AvatarsFullError: There is no room.
            PortraitError: The portrait cannot be used.
        """
        limits = self.settings.limits
        quota = AvatarQuota(limits.max_avatars, limits.max_avatars_bytes)
        command = RegisterAvatar(
            data, name or file_name, bool(name), temporary, quota, caller.owner, self.quotas.avatars(caller), consent
        )
        return await self.host.handle(command)

    async def presenter(self, asked: str | None, caller: Caller, *, there: bool = False) -> str | None:
        """The id of the presenter that a caller names by id or by name; None stands for the default one.

        Args:
            asked: Id or name.
            caller: Who asks.
            there: Whether an id is looked up, too, where the caller may use all presenters.

        Raises:
            AvatarNotFoundError: There is none of this id, or it is another owner's.
            InvalidInputError: No presenter has the name, or several have it.
        """
        if not asked:
            return None
        if not is_avatar_id(asked):
            known = await self.host.handle(ListAvatars(only=caller.only))
            return presenter_named(asked, "avatar_id", ((one.avatar_id, one.name) for one in known))
        if there or caller.only is not None:
            await self.host.handle(GetAvatar(asked, only=caller.only))
        return asked

    async def fetched(self, form: JobForm, hold: Hold) -> JobForm:
        """Return a form with the files that it names by their addresses.

        Raises:
            UrlRefusedError: The address is not fetched.
            UrlUnreachableError: The file cannot be had.
            BusyError: All requests together hold too many bytes.
        """
        most, audio, portrait = self.settings.limits.max_upload_bytes, form.audio, form.portrait
        if form.portrait_url:  # refused before the speech is fetched in vain
            self.fetcher.check(form.portrait_url, "portrait_url")
        if form.audio_url:
            audio = await self.fetcher.fetch(form.audio_url, "audio_url", most, hold.charge)
        if form.portrait_url:
            portrait = await self.fetcher.fetch(form.portrait_url, "portrait_url", most, hold.charge)
        return replace(form, audio=audio, portrait=portrait, audio_url="", portrait_url="")

    async def job_of(self, form: JobForm, job_id: str, caller: Caller) -> FileJob:
        """Make a job of a form; a portrait in it becomes a temporary presenter first.

        Raises:
            AvatarNotFoundError: The presenter that the form names is another owner's.
            AvatarsFullError: There is no room for one more presenter.
            PortraitError: The portrait cannot be used.
        """
        avatar_id = await self.presenter(form.avatar_id, caller)
        if form.portrait is not None:
            avatar_id = (await self.register(caller, form.portrait, "", temporary=True)).avatar_id
        return FileJob(
            job_id,
            Payload(form.audio),
            avatar_id,
            form.session,
            form.seed,
            form.stream,
            form.normalise,
            form.prompt,
            form.looks,
        )


@dataclass(frozen=True)
class StartedJob:
    """Holds a job that has come far enough for an answer of 200.

    Attributes:
        facts: Length, rate and size of the pictures of the file.
        size_bytes: Size of the file in bytes; 0 while it is unknown.
        pieces: Bytes of the file; closing the iterator cancels the job.
    """

    facts: JobStarted
    size_bytes: int
    pieces: AsyncGenerator[bytes, None]


def new_job_id(request: Request, request_id: str) -> str:
    """Return the request's id where the client chose it, so that it can ask for progress; else an id that cannot be guessed."""
    return request_id if request.headers.get("x-request-id") == request_id else uuid.uuid4().hex


async def start_job(host: Host, job: FileJob) -> StartedJob:
    """Start a job and wait until its HTTP status is certain.

    A streamed file is answered once its input has been accepted. A finished file is answered once it is finished, so that a job
    that fails half-way is never answered with 200; until it is sent, this process holds the only copy of it.

    Raises:
        LiveAnchorError: The job failed with this error.
    """
    events = host.generate(job)
    if not job.stream:
        finished = await finished_file(events)
        return StartedJob(finished.facts, finished.file.size, leaving(finished.file, PIECE_BYTES))
    try:
        async for event in events:
            if isinstance(event, JobStarted):
                return StartedJob(event, 0, _streamed(events))
        raise StageLostError("session_host", 1)
    except BaseException:
        await events.aclose()
        raise


async def _streamed(events: AsyncGenerator[JobEvent, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for event in events:
            if isinstance(event, JobBytes):
                yield event.data
