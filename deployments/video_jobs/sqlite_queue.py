"""The queue of jobs in SQLite: which one is next, and how long it is. Inside a transaction that the caller has begun and ends."""

from __future__ import annotations

import sqlite3
from typing import Final

from deployments.video_jobs.commands import ClaimJob, QueueFacts
from deployments.video_jobs.job import VideoJob
from deployments.video_jobs.refusals import LOST
from deployments.video_jobs.rows import as_text
from deployments.video_jobs.sqlite_operations import read
from deployments.video_jobs.store import MOST_LOST

_NEXT: Final = """
    SELECT id, 0 FROM jobs
    LEFT JOIN (SELECT owner, COUNT(*) AS busy FROM jobs WHERE state = 'running' GROUP BY owner) USING (owner)
    WHERE state = 'queued' AND not_before <= ?
    ORDER BY COALESCE(busy, 0), created_at, id LIMIT 1
"""


def claim(database: sqlite3.Connection, command: ClaimJob, now: float) -> VideoJob | None:
    """Begin an attempt; jobs that were lost too often fail on the way."""
    database.execute(
        """
        UPDATE jobs SET state = 'failed', ended_at = :now, lease_until = NULL, failure = :failure
        WHERE state = 'running' AND lease_until <= :now AND lost >= :most
        """,
        {"now": now, "failure": as_text(LOST), "most": MOST_LOST},
    )
    found = (
        database.execute(
            "SELECT id, 1 FROM jobs WHERE state = 'running' AND lease_until <= ? ORDER BY created_at, id LIMIT 1",
            (now,),
        ).fetchone()
        or database.execute(_NEXT, (now,)).fetchone()
    )
    if found is None:
        return None
    job_id, lost = found
    database.execute(
        """
        UPDATE jobs SET state = 'running', attempt = attempt + 1, lost = lost + :lost, lease_until = :until,
            worker = :worker, started_at = COALESCE(started_at, :now), done = 0, total = 0
        WHERE id = :id
        """,
        {"lost": lost, "until": now + command.lease_s, "worker": command.worker, "now": now, "id": job_id},
    )
    return read(database, job_id)


def count_ready(database: sqlite3.Connection, now: float) -> int:
    """Count the jobs that wait, and those whose lease ran out."""
    [number] = database.execute(
        """
        SELECT COUNT(*) FROM jobs
        WHERE (state = 'queued' AND not_before <= :now) OR (state = 'running' AND lease_until <= :now)
        """,
        {"now": now},
    ).fetchone()
    return int(number)


def facts(database: sqlite3.Connection, now: float) -> QueueFacts:
    """Count what waits and what is being made."""
    waiting, oldest = database.execute("SELECT COUNT(*), MIN(created_at) FROM jobs WHERE state = 'queued'").fetchone()
    [running] = database.execute("SELECT COUNT(*) FROM jobs WHERE state = 'running'").fetchone()
    [messages] = database.execute("SELECT COUNT(*) FROM messages WHERE due_at IS NOT NULL").fetchone()
    return QueueFacts(waiting, max(0.0, now - oldest) if waiting else 0.0, running, messages)
