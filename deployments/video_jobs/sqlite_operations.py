"""What each command does to the tables, inside a transaction that the caller has begun and ends."""

from __future__ import annotations

import sqlite3
from typing import Final

from deployments.video_jobs.commands import (
    Added,
    AddJob,
    BeatJob,
    CancelJob,
    CountJobs,
    DeleteJob,
    Failed,
    FindFailed,
    FinishJob,
    JobPage,
    ListJobs,
    OwnedJobCommand,
    PurgeJobs,
    RetryJob,
    Standing,
)
from deployments.video_jobs.errors import VideoNotFoundError
from deployments.video_jobs.job import ENDED, JobResult, JobState, VideoJob
from deployments.video_jobs.refusals import (
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
from deployments.video_jobs.store import KEY_S, MOST_FAILURES, MOST_MESSAGES, RETRY_PAUSE_S

_NEWEST: Final = """
    SELECT * FROM placed
    WHERE (:owner IS NULL OR owner = :owner) AND (:at IS NULL OR (created_at, id) < (:at, :after))
    ORDER BY created_at DESC, id DESC LIMIT :limit
"""
_OLDEST: Final = """
    SELECT * FROM placed
    WHERE (:owner IS NULL OR owner = :owner) AND (:at IS NULL OR (created_at, id) > (:at, :after))
    ORDER BY created_at, id LIMIT :limit
"""


def read(database: sqlite3.Connection, job_id: str, owner: str | None = None) -> VideoJob:
    """Read one job.

    Raises:
        VideoNotFoundError: The owner has no such job.
    """
    row = database.execute(
        "SELECT * FROM placed WHERE id = :id AND (:owner IS NULL OR owner = :owner)", {"id": job_id, "owner": owner}
    ).fetchone()
    if row is None:
        raise not_found(job_id)
    return job_of(dict(row))


def add(database: sqlite3.Connection, command: AddJob, now: float) -> Added:
    """Insert a row, or find the one that an earlier call inserted."""
    if database.execute("SELECT 1 FROM jobs WHERE id = ?", (command.job_id,)).fetchone():
        return Added(read(database, command.job_id), created=False)
    if command.idempotency_key and (earlier := _same_key(database, command, now)) is not None:
        return Added(earlier, created=False)
    _check_room(database, command.owner, command.max_queued, command.max_own)
    database.execute(
        """
        INSERT INTO jobs (id, owner, state, spec, metadata, keep_s, idempotency_key, fingerprint, created_at)
        VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?)
        """,
        (
            command.job_id,
            command.owner,
            as_text(command.spec),
            as_text(command.metadata),
            command.keep_s,
            command.idempotency_key or None,
            command.fingerprint,
            now,
        ),
    )
    return Added(read(database, command.job_id), created=True)


def _check_room(database: sqlite3.Connection, owner: str, max_queued: int, max_own: int) -> None:
    waiting, own = database.execute(
        "SELECT COUNT(*), COALESCE(SUM(owner = ?), 0) FROM jobs WHERE state = 'queued'", (owner,)
    ).fetchone()
    if max_queued and waiting >= max_queued:
        raise full(waiting)
    if max_own and own >= max_own:
        raise own_full(own)


def _same_key(database: sqlite3.Connection, command: AddJob, now: float) -> VideoJob | None:
    row = database.execute(
        "SELECT id, created_at, fingerprint FROM jobs WHERE owner = ? AND idempotency_key = ?",
        (command.owner, command.idempotency_key),
    ).fetchone()
    if row is None:
        return None
    if row["created_at"] <= now - KEY_S:
        database.execute("UPDATE jobs SET idempotency_key = NULL WHERE id = ?", (row["id"],))
        return None
    if row["fingerprint"] != command.fingerprint:
        raise other_request()
    return read(database, row["id"])


def beat(database: sqlite3.Connection, command: BeatJob, now: float) -> Standing:
    """Renew a lease. One that ran out is renewed too, as long as no other attempt has begun."""
    changed = database.execute(
        """
        UPDATE jobs SET lease_until = ?, done = ?, total = ? WHERE id = ? AND attempt = ? AND state = 'running'
        """,
        (now + command.lease_s, command.done, command.total, command.job_id, command.attempt),
    )
    return Standing.HELD if changed.rowcount else _standing(database, command.job_id, command.attempt)


def finish(database: sqlite3.Connection, command: FinishJob, now: float) -> Standing:
    """End an attempt, unless it has ended."""
    row = database.execute(
        "SELECT state, attempt, failures, result FROM jobs WHERE id = ?", (command.job_id,)
    ).fetchone()
    if row is None or row["attempt"] != command.attempt:
        return Standing.LOST
    outcome = command.outcome
    if row["state"] != JobState.RUNNING:
        repeated = isinstance(outcome, JobResult) and row["result"] == as_text(outcome)
        return Standing.HELD if repeated else _standing(database, command.job_id, command.attempt)
    values: dict[str, object] = {"id": command.job_id, "now": now}
    if isinstance(outcome, JobResult):
        values |= {"result": as_text(outcome), "expires": outcome.expires_at}
        database.execute(
            """
            UPDATE jobs SET state = 'completed', ended_at = :now, lease_until = NULL, done = total,
                result = :result, expires_at = :expires
            WHERE id = :id
            """,
            values,
        )
    elif isinstance(outcome, Failed) and not (outcome.again and row["failures"] + 1 < MOST_FAILURES):
        values |= {"failure": as_text(outcome.failure)}
        database.execute(
            """
            UPDATE jobs SET state = 'failed', ended_at = :now, lease_until = NULL, failures = failures + 1,
                failure = :failure
            WHERE id = :id
            """,
            values,
        )
    else:
        failed = isinstance(outcome, Failed)
        values |= {"failed": int(failed), "then": now + RETRY_PAUSE_S if failed else now}
        database.execute(
            """
            UPDATE jobs SET state = 'queued', lease_until = NULL, failures = failures + :failed, not_before = :then,
                done = 0, total = 0
            WHERE id = :id
            """,
            values,
        )
    return Standing.HELD


def _standing(database: sqlite3.Connection, job_id: str, attempt: int) -> Standing:
    """How an attempt stands that does not hold its job."""
    row = database.execute("SELECT state, attempt FROM jobs WHERE id = ?", (job_id,)).fetchone()
    cancelled = row is not None and row["state"] == JobState.CANCELLED and row["attempt"] == attempt
    return Standing.CANCELLED if cancelled else Standing.LOST


def cancel(database: sqlite3.Connection, command: CancelJob, now: float) -> VideoJob:
    """End a job that has not ended."""
    job = _owned(database, command)
    if job.state in ENDED:
        raise cannot_cancel(job.state)
    database.execute(
        "UPDATE jobs SET state = 'cancelled', ended_at = ?, lease_until = NULL WHERE id = ?", (now, job.job_id)
    )
    return read(database, job.job_id)


def retry(database: sqlite3.Connection, command: RetryJob, now: float) -> VideoJob:
    """Queue a job again; its attempts go on counting, so that an old one cannot write."""
    job = _owned(database, command)
    if job.state not in (JobState.FAILED, JobState.CANCELLED):
        raise cannot_retry(job.state)
    [messages] = database.execute("SELECT COUNT(*) FROM messages WHERE job_id = ?", (job.job_id,)).fetchone()
    if messages >= MOST_MESSAGES:
        raise told_enough()
    _check_room(database, job.owner, command.max_queued, command.max_own)
    database.execute(
        """
        UPDATE jobs SET state = 'queued', ended_at = NULL, failure = NULL, failures = 0, lost = 0, not_before = ?,
            done = 0, total = 0
        WHERE id = ?
        """,
        (now, job.job_id),
    )
    return read(database, job.job_id)


def delete(database: sqlite3.Connection, command: DeleteJob) -> VideoJob:
    """Remove a row."""
    job = _owned(database, command)
    database.execute("DELETE FROM jobs WHERE id = ?", (job.job_id,))
    return job


def _owned(database: sqlite3.Connection, command: OwnedJobCommand[VideoJob]) -> VideoJob:
    return read(database, command.job_id, command.owner)


def page(database: sqlite3.Connection, command: ListJobs) -> JobPage:
    """Read one page of the list, and one job more to know whether there is another page."""
    at: float | None = None
    if command.after:
        try:
            at = read(database, command.after, command.owner).created_at
        except VideoNotFoundError as error:
            raise bad_cursor(command.after) from error
    values = {"owner": command.owner, "at": at, "after": command.after, "limit": command.limit + 1}
    rows = database.execute(_NEWEST if command.newest_first else _OLDEST, values).fetchall()
    return JobPage(tuple(job_of(dict(row)) for row in rows[: command.limit]), len(rows) > command.limit)


def count(database: sqlite3.Connection, command: CountJobs) -> dict[JobState, int]:
    """Count rows by state."""
    rows = database.execute(
        "SELECT state, COUNT(*) FROM jobs WHERE :owner IS NULL OR owner = :owner GROUP BY state",
        {"owner": command.owner},
    )
    return {JobState(state): number for state, number in rows}


def find_failed(database: sqlite3.Connection, command: FindFailed) -> tuple[str, ...]:
    """Find ended rows without a file."""
    query = "SELECT ended_at, id FROM jobs WHERE id = ? AND state IN ('failed', 'cancelled')"
    rows = (database.execute(query, (one,)).fetchone() for one in command.among)
    return tuple(row["id"] for row in sorted((row for row in rows if row is not None), key=tuple))


def purge(database: sqlite3.Connection, command: PurgeJobs, now: float) -> tuple[str, ...]:
    """Remove old rows that no message waits for; answers which uploads neither a waiting job nor a retry can need."""
    database.execute(
        """
        DELETE FROM jobs WHERE ended_at <= ? AND COALESCE(expires_at, 0) <= ?
            AND NOT EXISTS (SELECT 1 FROM messages WHERE job_id = jobs.id AND due_at IS NOT NULL)
        """,
        (now - command.keep_s, now),
    )
    query = "SELECT 1 FROM jobs WHERE id = ? AND state <> 'completed'"
    return tuple(one for one in command.uploads if database.execute(query, (one,)).fetchone() is None)
