"""A receiver of messages on this machine, and a sender whose fetcher reaches it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI, Request, Response

from deployments.video_jobs.commands import AddJob, ClaimJob, FinishJob
from deployments.video_jobs.job import JobResult, JobSpec
from deployments.video_jobs.store import JobStore
from pipeline.fetch.fetcher import Fetcher
from pipeline.fetch.settings import FetchSettings
from serve_app.http.webhooks.sender import WebhookSender
from tests.support.http_server import running
from tests.support.in_process_jobs import ThreadJobs
from tests.support.manual_clock import ManualClock

RESULT = JobResult("r" * 32, 5000.0, 812_345, "a" * 32, 100, 25.0, 720, 1280, 4.0)


class Receiver:
    """What came, and what is answered.

    Attributes:
        port: Where it listens.
        came: Headers and body of every request.
        answers: Status and headers of the next answers; 200 when they run out. None for no answer.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.answers: deque[tuple[int, dict[str, str]] | None] = deque()
        self.silent = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://hooks.example:{self.port}/hook"

    def fetcher(
        self, enabled: bool = True, address: str = "127.0.0.1", networks: tuple[str, ...] = ("127.0.0.1/32",)
    ) -> Fetcher:
        """A fetcher that finds the receiver under a public-looking name."""

        async def resolve(name: str, port: int) -> list[str]:
            return [address]

        return Fetcher(FetchSettings(enabled=enabled, networks=networks, ports=(self.port,)), resolve)

    def sender(
        self, store: JobStore, clock: ManualClock, fetcher: Fetcher | None = None, answer_s: float = 15.0
    ) -> WebhookSender:
        return WebhookSender(ThreadJobs(store), fetcher or self.fetcher(), clock, lambda: 0.5, answer_s)


@contextmanager
def receiving() -> Iterator[Receiver]:
    found, api = Receiver(), FastAPI()

    @api.post("/{path:path}")
    async def take(request: Request) -> Response:
        found.came.append((dict(request.headers), await request.body()))
        answer = found.answers.popleft() if found.answers else (200, {})
        if answer is None:
            await found.silent.wait()
            answer = (200, {})
        return Response(b"", *answer)

    with running(api) as port:
        found.port = port
        yield found


def send_due(sender: WebhookSender) -> int:
    """Send what is due now, to the end; answers how many messages that were."""

    async def go() -> int:
        begun = await sender.look()
        await asyncio.gather(*begun)
        return len(begun)

    return asyncio.run(go())


def completed(store: JobStore, url: str, job_id: str = "video_1", owner: str = "") -> None:
    """A job with an address that has just been made."""
    store.handle(AddJob(job_id, owner, JobSpec(None, False, 25.0, 8, webhook_url=url), 60.0, {"story": "4711"}))
    job = store.handle(ClaimJob("w", 30.0))
    assert job is not None
    store.handle(FinishJob(job.job_id, job.attempt, RESULT))
