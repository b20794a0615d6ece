"""The tables of video jobs in SQLite."""

from __future__ import annotations

from typing import Final

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
