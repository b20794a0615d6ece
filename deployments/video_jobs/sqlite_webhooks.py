"""What each command about messages does to the tables, inside a transaction that the caller has begun and ends."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from typing import Any

from deployments.video_jobs.refusals import no_message
from deployments.video_jobs.rows import message_of
from deployments.video_jobs.sqlite_operations import read
from deployments.video_jobs.webhooks import (
    LOGGED,
    MOST_OF_OWNER,
    ClaimMessages,
    ForgetSecrets,
    ListMessages,
    Message,
    MessageState,
    NoteAttempt,
    ReadSecrets,
    ReplayMessage,
    RotateSecret,
    SigningSecret,
    WebhookCommand,
)
from kernels.errors import InvalidInputError


def handle(database: sqlite3.Connection, command: WebhookCommand[Any], now: float) -> Any:
    """Do what a command asks; errors are those of the command."""
    match command:
        case ClaimMessages():
            return _claim(database, command, now)
        case NoteAttempt():
            return _note(database, command, now)
        case ListMessages():
            read(database, command.job_id, command.owner)
            return _of_job(database, command.job_id)
        case ReplayMessage():
            return _replay(database, command, now)
        case ReadSecrets():
            return _secrets(database, command.owner, now) or _keep(database, command.owner, command.fresh, now)
        case ForgetSecrets():
            number = len(_secrets(database, command.owner, now))
            database.execute("DELETE FROM webhook_secrets WHERE owner = ?", (command.owner,))
            return number
        case RotateSecret():
            return _rotate(database, command, now)
        case _:  # while the service is changed, another version may ask
            raise InvalidInputError("command", type(command).__name__, "a command of this version")


def _claim(database: sqlite3.Connection, command: ClaimMessages, now: float) -> tuple[Message, ...]:
    of: Counter[str] = Counter(command.in_flight)
    found: list[str] = []
    for message_id, owner in database.execute(
        "SELECT id, owner FROM messages WHERE due_at <= ? ORDER BY due_at, id", (now,)
    ):
        if len(found) >= command.most:
            break
        if of[owner] < MOST_OF_OWNER:
            of[owner] += 1
            found.append(message_id)
    for message_id in found:
        database.execute(
            "UPDATE messages SET due_at = ?, attempt = attempt + 1, tries = tries + 1 WHERE id = ?",
            (now + command.lease_s, message_id),
        )
    return tuple(_read(database, message_id) for message_id in found)


def _note(database: sqlite3.Connection, command: NoteAttempt, now: float) -> bool:
    row = database.execute(
        "SELECT log FROM messages WHERE id = ? AND attempt = ? AND state = 'waiting'",
        (command.message_id, command.attempt),
    ).fetchone()
    if row is None:
        return False
    log = [*json.loads(row["log"]), {"at": now, "status": command.status, "note": command.note}][-LOGGED:]
    waits = command.state is MessageState.WAITING
    database.execute(
        "UPDATE messages SET state = ?, due_at = ?, log = ? WHERE id = ?",
        (command.state, now + command.again_s if waits else None, json.dumps(log), command.message_id),
    )
    return True


def _replay(database: sqlite3.Connection, command: ReplayMessage, now: float) -> Message:
    read(database, command.job_id, command.owner)
    there = _of_job(database, command.job_id)
    if not there:
        raise no_message()
    database.execute(
        "UPDATE messages SET state = 'waiting', due_at = ?, tries = 0 WHERE id = ?", (now, there[-1].message_id)
    )
    return _read(database, there[-1].message_id)


def _read(database: sqlite3.Connection, message_id: str) -> Message:
    return message_of(dict(database.execute("SELECT * FROM messages WHERE id = ?", (message_id,)).fetchone()))


def _of_job(database: sqlite3.Connection, job_id: str) -> tuple[Message, ...]:
    rows = database.execute("SELECT * FROM messages WHERE job_id = ? ORDER BY number", (job_id,))
    return tuple(message_of(dict(row)) for row in rows)


def _secrets(database: sqlite3.Connection, owner: str, now: float) -> tuple[SigningSecret, ...]:
    database.execute("DELETE FROM webhook_secrets WHERE expires_at <= ?", (now,))
    rows = database.execute(
        """
        SELECT secret, created_at, expires_at FROM webhook_secrets WHERE owner = ?
        ORDER BY expires_at IS NULL DESC, expires_at DESC
        """,
        (owner,),
    )
    return tuple(SigningSecret(*row) for row in rows)


def _keep(database: sqlite3.Connection, owner: str, secret: str, now: float) -> tuple[SigningSecret, ...]:
    database.execute("INSERT INTO webhook_secrets (owner, secret, created_at) VALUES (?, ?, ?)", (owner, secret, now))
    return (SigningSecret(secret, now),)


def _rotate(database: sqlite3.Connection, command: RotateSecret, now: float) -> tuple[SigningSecret, ...]:
    before = database.execute(
        "SELECT secret, created_at FROM webhook_secrets WHERE owner = ? AND expires_at IS NULL", (command.owner,)
    ).fetchone()
    database.execute("DELETE FROM webhook_secrets WHERE owner = ?", (command.owner,))
    newest = _keep(database, command.owner, command.fresh, now)
    if before is None or command.overlap_s <= 0:
        return newest
    older = SigningSecret(before["secret"], before["created_at"], now + command.overlap_s)
    database.execute(
        "INSERT INTO webhook_secrets (owner, secret, created_at, expires_at) VALUES (?, ?, ?, ?)",
        (command.owner, older.text, older.created_at, older.expires_at),
    )
    return (*newest, older)
