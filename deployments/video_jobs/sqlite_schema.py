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
    """
    CREATE TABLE IF NOT EXISTS messages (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        job_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        url TEXT NOT NULL,
        ended TEXT NOT NULL,
        metadata TEXT NOT NULL,
        failure TEXT,
        created_at REAL NOT NULL,
        state TEXT NOT NULL DEFAULT 'waiting',
        due_at REAL,
        attempt INTEGER NOT NULL DEFAULT 0,
        tries INTEGER NOT NULL DEFAULT 0,
        log TEXT NOT NULL DEFAULT '[]'
    )
    """,
    "CREATE INDEX IF NOT EXISTS messages_due ON messages(due_at) WHERE due_at IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS messages_of_job ON messages(job_id, number)",
    """
    CREATE TRIGGER IF NOT EXISTS job_ended AFTER UPDATE OF state ON jobs
    WHEN NEW.state IN ('completed', 'failed', 'cancelled') AND OLD.state IN ('queued', 'running')
        AND json_extract(NEW.spec, '$.webhook_url') <> ''
    BEGIN
        INSERT INTO messages (id, job_id, owner, url, ended, metadata, failure, created_at, due_at)
        SELECT 'msg_' || NEW.id || '_' || (1 + COUNT(*)), NEW.id, NEW.owner, json_extract(NEW.spec, '$.webhook_url'),
            NEW.state, NEW.metadata, NEW.failure, NEW.ended_at, NEW.ended_at
        FROM messages WHERE job_id = NEW.id;
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS job_forgotten AFTER DELETE ON jobs
    BEGIN
        DELETE FROM messages WHERE job_id = OLD.id;
    END
    """,
    """
    CREATE TABLE IF NOT EXISTS webhook_secrets (
        owner TEXT NOT NULL,
        secret TEXT NOT NULL,
        created_at REAL NOT NULL,
        expires_at REAL
    )
    """,
)
"""Statements that make the tables where they are missing. Triggers write a message with the job's end, whatever ended it."""
