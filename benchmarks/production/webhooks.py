"""Which share of messages about videos reaches a receiver that fails half of the time, within the day for which they are tried.

Everything is real but the clock, which jumps to the moment at which the next attempt is due: the store, the sender, HTTP and the
receiver, which answers 500 or hangs up at random.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from benchmarks.production.receiver import receiving
from benchmarks.production.store import LEASE_S, RESULT
from deployments.host.command import Answer
from deployments.video_jobs.commands import AddJob, ClaimJob, FinishJob, JobCommand
from deployments.video_jobs.job import JobSpec
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.webhooks import ListMessages, MessageState
from kernels.errors import LiveAnchorError
from pipeline.fetch.fetcher import Fetcher
from pipeline.fetch.settings import FetchSettings
from serve_app.http.webhooks.sender import WebhookSender

RUNS: Final = 5
MESSAGES: Final = 100
FAILING: Final = 0.5
DAY_S: Final = 24 * 3600.0


class _Jobs:
    """The store, for code on an event loop."""

    def __init__(self, store: SqliteJobStore) -> None:
        self._store = store

    async def handle(self, command: JobCommand[Answer]) -> Answer:
        return self._store.handle(command)

    async def wake(self) -> None:
        return


class _Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def delivered(path: Path, seed: int) -> tuple[float, float]:
    """Shares of messages that reached the receiver within a day, and with their first attempt.

    Raises:
        LiveAnchorError: What the store says of a message is not what the receiver saw.
    """
    clock = _Clock()
    store = SqliteJobStore(path, clock)
    ids = [f"video_{number:06x}" for number in range(MESSAGES)]
    with receiving(FAILING, seed) as receiver:
        port = receiver.port
        url = f"http://127.0.0.1:{port}/hook"
        for job_id in ids:
            store.handle(AddJob(job_id, "", JobSpec(None, False, 25.0, 8, webhook_url=url), 3600.0))
            job = store.handle(ClaimJob("benchmark", LEASE_S))
            if job is not None:
                store.handle(FinishJob(job.job_id, job.attempt, RESULT))
        settings = FetchSettings(networks=("127.0.0.1/32",), ports=(port,))
        sender = WebhookSender(_Jobs(store), Fetcher(settings), clock, random.Random(seed).random)  # noqa: S311
        asyncio.run(_a_day(sender, store, clock, ids))
        messages = [message for job_id in ids for message in store.handle(ListMessages(job_id, None))]
        done = {one.message_id for one in messages if one.state is MessageState.DELIVERED}
        if done != set(receiver.taken) or len(messages) != MESSAGES:
            raise LiveAnchorError(f"{len(done)} messages delivered says the store, {len(receiver.taken)} the receiver")
        store.close()
        return len(receiver.taken) / MESSAGES, len(receiver.at_once) / MESSAGES


async def _a_day(sender: WebhookSender, store: SqliteJobStore, clock: _Clock, ids: list[str]) -> None:
    """Send until nothing waits or the day is over."""
    ends_at = clock.now + DAY_S
    while clock.now <= ends_at:
        begun = await sender.look()
        await asyncio.gather(*begun)
        if begun:
            continue
        due = [
            one.due_at for job_id in ids for one in store.handle(ListMessages(job_id, None)) if one.due_at is not None
        ]
        if not due:
            return
        clock.now = min(due)


def webhook_records(run: RunInfo, suite: str) -> list[BenchmarkRecord]:
    """Measure what is delivered, with retries and, as the baseline, without."""
    with TemporaryDirectory() as folder:
        shares = [delivered(Path(folder) / f"{seed}.sqlite3", seed) for seed in range(RUNS)]
    return [
        make_record(
            run,
            suite=suite,
            case="webhook_delivered_share",
            unit="share",
            samples=[share for share, _ in shares],
            higher_is_better=True,
            baseline="the first attempts alone",
            baseline_value=sorted(first for _, first in shares)[RUNS // 2],
        )
    ]
