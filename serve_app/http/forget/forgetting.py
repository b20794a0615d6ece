"""Removes all that belongs to a key, or that shows a presenter, wherever it is; running it again is harmless."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from deployments.host.avatar_commands import ForgetAvatars, Left
from deployments.host.live_commands import End
from deployments.host.live_errors import SessionEndedError, SessionNotFoundError
from deployments.video_jobs.commands import ListJobs
from deployments.video_jobs.errors import VideoNotFoundError
from deployments.video_jobs.job import VideoJob
from deployments.video_jobs.webhooks import ForgetSecrets, ListMessages
from kernels.errors import LiveAnchorError
from serve_app.access.owned_ids import belongs_to
from serve_app.http.live.host import LiveHost
from serve_app.http.services import Services
from serve_app.http.videos.deletion import delete_video

PAGE: Final = 100
PAUSE_S: Final = 0.5
"""Seconds between looks whether work has stopped."""


@dataclass(frozen=True)
class Subject:
    """What is to be forgotten: all that a key made, or all that shows a presenter. One of both is empty."""

    owner: str = ""
    avatar_id: str = ""


@dataclass
class Report:
    """What went, or would go; ids, but for the last five.

    Attributes:
        live_sessions: Sessions that were ended.
        videos: Videos that were cancelled where they were in work, and forgotten.
        uploads: Videos whose speech or portrait was still there.
        results: Files that belong to no video.
        presenters: Presenters that were removed.
        kept_presenters: Presenters that stay because they are others' too.
        messages: Number of messages to `webhook_url`, delivered ones included.
        consents: Number of statements of consent.
        secrets: Number of secrets for signing messages.
        cleared: Nodes and processes whose copies were dropped.
        left: What could not be removed.
    """

    live_sessions: list[str] = field(default_factory=list)
    videos: list[str] = field(default_factory=list)
    uploads: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    presenters: list[str] = field(default_factory=list)
    kept_presenters: list[str] = field(default_factory=list)
    messages: int = 0
    consents: int = 0
    secrets: int = 0
    cleared: list[str] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


class Forgetting:
    """Forgets one subject. What uses its things ends first, then its things go, then copies of them; copies come back otherwise.

    Args:
        services: Parts of the application.
        live: Live sessions.
        subject: What is to be forgotten.
        dry_run: Whether all stays, and the report says what would go.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        services: Services,
        live: LiveHost,
        subject: Subject,
        *,
        dry_run: bool,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._services = services
        self._live = live
        self._subject = subject
        self._dry_run = dry_run
        self._sleep = sleep
        self._report = Report()

    async def run(self) -> Report:
        """Forget, and report. One store that does not answer keeps nothing else from going: it is named in the report."""
        for kind, step in (
            ("live_session", self._end_sessions),
            ("video", self._forget_videos),
            ("work", self._wait_for_work),
            ("result", self._discard_results),
            ("presenter", self._forget_presenters),
            ("copies", self._drop_copies),
            ("secret", self._forget_secrets),
        ):
            try:
                await step()
            except LiveAnchorError as error:
                self._leave(kind, "", error)
        return self._report

    async def _end_sessions(self) -> None:
        for host in await self._live.live_stats():
            for session in host.sessions:
                session_id = str(session["session_id"])
                if not self._is_meant(session_id, str(session["avatar_id"])):
                    continue
                try:
                    if not self._dry_run:
                        await self._live.handle(End(session_id))
                except (SessionEndedError, SessionNotFoundError):
                    continue
                except LiveAnchorError as error:
                    self._leave("live_session", session_id, error)
                    continue
                self._report.live_sessions.append(session_id)

    def _is_meant(self, owned: str, avatar_id: str) -> bool:
        subject = self._subject
        return belongs_to(owned, subject.owner) if subject.owner else avatar_id == subject.avatar_id

    async def _forget_videos(self) -> None:
        uploads = await asyncio.to_thread(self._services.uploads.there)
        found = [job async for job in self._videos()]
        for job in found:
            try:
                messages = await self._services.jobs.handle(ListMessages(job.job_id, None))
                if not self._dry_run:
                    await delete_video(self._services, job.job_id, None)
            except VideoNotFoundError:
                continue
            except LiveAnchorError as error:
                self._leave("video", job.job_id, error)
                continue
            self._report.videos.append(job.job_id)
            self._report.messages += len(messages)
            if job.job_id in uploads:
                self._report.uploads.append(job.job_id)

    async def _videos(self) -> AsyncIterator[VideoJob]:
        after, subject = "", self._subject
        while True:
            page = await self._services.jobs.handle(ListJobs(subject.owner or None, PAGE, after, newest_first=False))
            for job in page.jobs:
                shown = {job.spec.avatar_id, job.result.avatar_id if job.result else None}
                if subject.owner or subject.avatar_id in shown:
                    yield job
            if not page.has_more:
                return
            after = page.jobs[-1].job_id

    async def _wait_for_work(self) -> None:
        """Let hosts notice that videos are gone, so that they make nothing of the subject's any more."""
        if self._dry_run:
            return
        videos, waited_s, longest_s = set(self._report.videos), 0.0, 2 * self._services.settings.jobs.beat_s
        while working := [one for one in await self._working() if one in videos or self._is_meant(one, "")]:
            if waited_s >= longest_s:
                self._report.left += [Left("work", one, "is still being made; run this again") for one in working]
                return
            await self._sleep(PAUSE_S)
            waited_s += PAUSE_S

    async def _working(self) -> list[str]:
        return [job_id for host in await self._services.host.host_stats() for job_id in host.active_jobs]

    async def _discard_results(self) -> None:
        results, word = self._services.results, self._subject.owner or self._subject.avatar_id
        for result_id in await asyncio.to_thread(results.about, word):
            try:
                if not self._dry_run:
                    await asyncio.to_thread(results.discard, result_id)
            except LiveAnchorError as error:
                self._leave("result", result_id, error)
                continue
            self._report.results.append(result_id)

    async def _forget_presenters(self) -> None:
        subject = self._subject
        command = ForgetAvatars(owner=subject.owner, avatar_id=subject.avatar_id, dry_run=self._dry_run)
        found = await self._services.host.handle(command)
        self._report.presenters += found.presenters
        self._report.kept_presenters += found.kept
        self._report.consents += found.consents
        self._report.left += found.left

    async def _drop_copies(self) -> None:
        """Also of a presenter that is gone: an earlier run may have met a node that did not answer."""
        ids = [self._subject.avatar_id] if self._subject.avatar_id else self._report.presenters
        if self._dry_run or not ids:
            return
        dropped = await self._services.host.drop_avatars(ids)
        self._report.cleared += dropped.places
        self._report.left += dropped.left

    async def _forget_secrets(self) -> None:
        if self._subject.owner and not self._dry_run:
            self._report.secrets = await self._services.jobs.handle(ForgetSecrets(self._subject.owner))

    def _leave(self, kind: str, name: str, error: LiveAnchorError) -> None:
        self._report.left.append(Left(kind, name, str(error)))
