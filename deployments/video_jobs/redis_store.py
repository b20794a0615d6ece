"""Video jobs in Redis, for clusters whose head node may go away: `stores.jobs: redis://host:6379/0`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import redis

from deployments.host.command import Answer
from deployments.video_jobs import redis_webhooks as webhooks
from deployments.video_jobs.commands import (
    Added,
    AddJob,
    BeatJob,
    CancelJob,
    ClaimJob,
    CountJobs,
    CountReady,
    DeleteJob,
    Failed,
    FindFailed,
    FinishJob,
    GetJob,
    JobCommand,
    JobPage,
    ListJobs,
    PurgeJobs,
    QueueFacts,
    ReadQueue,
    RetryJob,
    Standing,
)
from deployments.video_jobs.errors import JobStoreError
from deployments.video_jobs.job import JobResult, JobState
from deployments.video_jobs.redis_script import SCRIPT
from deployments.video_jobs.refusals import (
    LOST,
    bad_cursor,
    cannot_cancel,
    cannot_retry,
    full,
    not_found,
    other_request,
    own_full,
    told_enough,
)
from deployments.video_jobs.rows import as_text, job_of
from deployments.video_jobs.webhooks import WebhookCommand
from kernels.errors import InvalidInputError, first_line

PREFIX: Final = "{liveanchor-jobs}:"
ANSWER_S: Final = 5.0
"""Seconds within which the server must answer."""


class RedisJobStore:
    """Keeps jobs in a Redis server (7 or newer; Valkey too); each command is one run of a script there.

    What is accepted survives the server's end only as far as the server is told so: `appendonly yes`, `appendfsync always`.

    Args:
        url: Address, such as `redis://:password@host:6379/0`.
        wall_clock: Gives seconds since the epoch; None for the server's own clock, which all callers share.
    """

    def __init__(self, url: str, wall_clock: Callable[[], float] | None = None) -> None:
        self._client = redis.Redis.from_url(
            url, decode_responses=True, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S
        )
        where = self._client.connection_pool.connection_kwargs
        self._place = f"{where.get('host', url.partition('://')[0])}:{where.get('port', '')}"
        self._script = self._client.register_script(SCRIPT)
        self._wall_clock = wall_clock

    def handle(self, command: JobCommand[Answer]) -> Answer:
        """Do what a command asks.

        Raises:
            JobStoreError: The server does not answer, or takes nothing in.
            LiveAnchorError: As the command says.
        """
        answer: Answer = self._do(command)  # the command says what
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _do(self, command: JobCommand[Any]) -> Any:
        match command:
            case AddJob():
                found = self._run("add", command, **_added(command))
                if found.get("error") == "mismatch":
                    raise other_request()
                _check_room(found)
                return Added(job_of(found["job"]), found["created"])
            case ClaimJob():
                values = {"lease_s": command.lease_s, "worker": command.worker, "failure": as_text(LOST)}
                found = self._run("claim", command, **values)
                return job_of(found["job"]) if found else None
            case BeatJob():
                values = {"attempt": command.attempt, "lease_s": command.lease_s}
                found = self._run("beat", command, **values, done=command.done, total=command.total)
                return Standing(found["standing"])
            case FinishJob():
                found = self._run("finish", command, attempt=command.attempt, **_ended(command))
                return Standing(found["standing"])
            case GetJob():
                return self._one("get", command)
            case CancelJob():
                return self._one("cancel", command)
            case RetryJob():
                return self._one("retry", command, max_queued=command.max_queued, max_own=command.max_own)
            case DeleteJob():
                return self._one("delete", command)
            case ListJobs():
                values = {"limit": command.limit, "after": command.after, "newest": command.newest_first}
                found = self._run("page", command, **values)
                if "error" in found:
                    raise bad_cursor(command.after)
                jobs = tuple(job_of(job) for job in found["jobs"] or ())
                return JobPage(jobs[: command.limit], len(jobs) > command.limit)
            case CountJobs():
                counts = self._run("count", command)["counts"]
                return {JobState(state): number for state, number in (counts or {}).items()}
            case CountReady():
                return int(self._run("ready", command)["count"])
            case ReadQueue():
                return QueueFacts(**self._run("queue", command))
            case PurgeJobs():
                found = self._run("purge", command, keep_s=command.keep_s, uploads=command.uploads)
                return tuple(found["spare"] or ())
            case FindFailed():
                return tuple(self._run("find_failed", command, among=command.among)["ids"] or ())
            case WebhookCommand():
                return webhooks.handle(self._run, command)
            case _:  # while the service is changed, another version may ask
                raise InvalidInputError("command", type(command).__name__, "a command of this version")

    def _one(self, op: str, command: GetJob | CancelJob | RetryJob | DeleteJob, **values: int) -> Any:
        found = self._run(op, command, **values)
        _check_room(found)
        match found.get("error"):
            case "unknown":
                raise not_found(command.job_id)
            case "state" if op == "cancel":
                raise cannot_cancel(found["state"])
            case "state":
                raise cannot_retry(found["state"])
            case "told":
                raise told_enough()
        return job_of(found["job"])

    def _run(self, op: str, command: JobCommand[Any], **values: object) -> Any:
        owner = getattr(command, "owner", "")
        values |= {"id": getattr(command, "job_id", ""), "owner": owner or "", "any": owner is None}
        now = "" if self._wall_clock is None else repr(self._wall_clock())
        try:
            return json.loads(self._script(keys=[PREFIX], args=[now, op, json.dumps(values)]))
        except redis.RedisError as error:
            raise JobStoreError(self._place, first_line(error, named=True)) from error


def _check_room(found: dict[str, Any]) -> None:
    match found.get("error"):
        case "full":
            raise full(int(found["waiting"]))
        case "own_full":
            raise own_full(int(found["waiting"]))


def _added(command: AddJob) -> dict[str, object]:
    return {
        "spec": as_text(command.spec),
        "metadata": as_text(command.metadata),
        "keep_s": command.keep_s,
        "key": command.idempotency_key,
        "fingerprint": command.fingerprint,
        "max_queued": command.max_queued,
        "max_own": command.max_own,
    }


def _ended(command: FinishJob) -> dict[str, object]:
    outcome = command.outcome
    if isinstance(outcome, JobResult):
        return {"result": as_text(outcome), "expires_at": outcome.expires_at}
    if isinstance(outcome, Failed):
        return {"failure": as_text(outcome.failure), "again": outcome.again}
    return {}
