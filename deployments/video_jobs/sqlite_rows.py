"""Jobs as rows of a SQLite table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from deployments.video_jobs.job import JobFailure, JobResult, JobSpec, JobState, VideoJob

SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS jobs (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        spec TEXT NOT NULL,
        metadata TEXT NOT NULL,
        keep_s REAL NOT NULL,
        idempotency_key TEXT,
        fingerprint TEXT NOT NULL,
        created_at REAL NOT NULL,
        not_before REAL NOT NULL DEFAULT 0,
        started_at REAL,
        ended_at REAL,
        expires_at REAL,
        attempt INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        lost INTEGER NOT NULL DEFAULT 0,
        lease_until REAL,
        worker TEXT NOT NULL DEFAULT '',
        done INTEGER NOT NULL DEFAULT 0,
        total INTEGER NOT NULL DEFAULT 0,
        result TEXT,
        failure TEXT
    ) WITHOUT ROWID
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS jobs_by_key ON jobs(owner, idempotency_key) WHERE idempotency_key IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs(state, created_at, id)",
    "CREATE INDEX IF NOT EXISTS jobs_by_age ON jobs(created_at, id)",
    """
    CREATE VIEW IF NOT EXISTS placed AS SELECT *,
        CASE state WHEN 'queued' THEN (
            SELECT COUNT(*) FROM jobs AS ahead
            WHERE ahead.state = 'queued' AND (ahead.created_at, ahead.id) <= (jobs.created_at, jobs.id)
        ) ELSE 0 END AS place
    FROM jobs
    """,
)
"""Statements that make the tables where they are missing."""


def job_of(row: sqlite3.Row) -> VideoJob:
    """Read a row of the view `placed`."""
    return VideoJob(
        job_id=row["id"],
        owner=row["owner"],
        state=JobState(row["state"]),
        spec=JobSpec(**json.loads(row["spec"])),
        metadata=json.loads(row["metadata"]),
        keep_s=row["keep_s"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        attempt=row["attempt"],
        done=row["done"],
        total=row["total"],
        place=row["place"],
        result=None if row["result"] is None else JobResult(**json.loads(row["result"])),
        failure=None if row["failure"] is None else JobFailure(**json.loads(row["failure"])),
    )


def as_text(value: JobSpec | JobResult | JobFailure | Mapping[str, str]) -> str:
    """Write a part of a job for a column of text."""
    return json.dumps(dict(value) if isinstance(value, Mapping) else asdict(value), ensure_ascii=False)
