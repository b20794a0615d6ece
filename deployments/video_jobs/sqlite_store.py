"""Video jobs in one SQLite file. For one machine: SQLite's write-ahead log does not work on network file systems."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from deployments.host.command import Answer
from deployments.video_jobs import sqlite_operations as operations
from deployments.video_jobs import sqlite_queue as queue
from deployments.video_jobs import sqlite_webhooks as webhooks
from deployments.video_jobs.commands import (
    AddJob,
    BeatJob,
    CancelJob,
    ClaimJob,
    CountJobs,
    CountReady,
    DeleteJob,
    FindFailed,
    FinishJob,
    GetJob,
    JobCommand,
    ListJobs,
    PurgeJobs,
    ReadQueue,
    RetryJob,
)
from deployments.video_jobs.errors import JobStoreError
from deployments.video_jobs.sqlite_schema import SCHEMA
from deployments.video_jobs.webhooks import ClaimMessages, ListMessages, WebhookCommand
from kernels.errors import InvalidInputError, first_line

BUSY_S: Final = 10.0
"""Seconds to wait for another process's transaction."""
_READS: Final = (GetJob, ListJobs, CountJobs, CountReady, ReadQueue, FindFailed, ListMessages)
_UNSYNCED: Final = (ClaimJob, BeatJob, ClaimMessages)
"""Writes that a loss of power may take back: the lease of such an attempt runs out, and another attempt follows."""


class SqliteJobStore:
    """Keeps jobs in a file; each command is one transaction. Threads and processes may share the file.

    What is accepted or finished is on the disk before it is answered (`synchronous=FULL`), so a loss of power takes nothing back.

    Args:
        path: The file; it and its folder are made at the first use.
        wall_clock: Gives seconds since the epoch.
        max_pages: Most pages of 4 KiB that the file may have; None for as many as the disk holds.
    """

    def __init__(
        self, path: Path | str, wall_clock: Callable[[], float] = time.time, max_pages: int | None = None
    ) -> None:
        self._path = Path(path)
        self._wall_clock = wall_clock
        self._max_pages = max_pages
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._was_there = False

    def handle(self, command: JobCommand[Answer]) -> Answer:
        """Do what a command asks.

        Raises:
            JobStoreError: The file cannot be used: no room, no rights, gone or replaced while it was open.
            LiveAnchorError: As the command says.
        """
        with self._lock, self._transaction(command) as database:
            answer: Answer = self._do(database, command)
        return answer

    def close(self) -> None:
        """Close the file; the next command opens it again."""
        with self._lock:
            self._let_go()

    def _do(self, database: sqlite3.Connection, command: JobCommand[Any]) -> Any:
        now = self._wall_clock()
        match command:
            case AddJob():
                return operations.add(database, command, now)
            case ClaimJob():
                return queue.claim(database, command, now)
            case BeatJob():
                return operations.beat(database, command, now)
            case FinishJob():
                return operations.finish(database, command, now)
            case GetJob():
                return operations.read(database, command.job_id, command.owner)
            case ListJobs():
                return operations.page(database, command)
            case CountJobs():
                return operations.count(database, command)
            case CountReady():
                return queue.count_ready(database, now)
            case ReadQueue():
                return queue.facts(database, now)
            case CancelJob():
                return operations.cancel(database, command, now)
            case RetryJob():
                return operations.retry(database, command, now)
            case DeleteJob():
                return operations.delete(database, command)
            case PurgeJobs():
                return operations.purge(database, command, now)
            case FindFailed():
                return operations.find_failed(database, command)
            case WebhookCommand():
                return webhooks.handle(database, command, now)
            case _:  # while the service is changed, another version may ask
                raise InvalidInputError("command", type(command).__name__, "a command of this version")

    @contextmanager
    def _transaction(self, command: JobCommand[Any]) -> Iterator[sqlite3.Connection]:
        """Do everything inside, or nothing."""
        try:
            database = self._opened()
            if not isinstance(command, _READS):
                database.execute(f"PRAGMA synchronous = {'NORMAL' if isinstance(command, _UNSYNCED) else 'FULL'}")
            database.execute("BEGIN" if isinstance(command, _READS) else "BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")
        except (sqlite3.Error, OSError) as error:
            self._let_go()
            raise JobStoreError(str(self._path), first_line(error)) from error

    def _opened(self) -> sqlite3.Connection:
        """The connection, to the file that has the name: SQLite itself would go on writing into one that was removed."""
        if self._database is not None and self._path.stat().st_ino != self._inode:
            self._let_go()
        if self._database is None:
            self._database = self._open()
        return self._database

    def _open(self) -> sqlite3.Connection:
        if not self._was_there:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        mode = "rw" if self._was_there else "rwc"  # a file that vanished is not replaced by an empty one in silence
        database = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            database.row_factory = sqlite3.Row
            database.execute("PRAGMA journal_mode = WAL")
            if self._max_pages is not None:
                database.execute(f"PRAGMA max_page_count = {int(self._max_pages)}")
            for statement in SCHEMA:
                database.execute(statement)
        except sqlite3.Error:
            database.close()
            raise
        self._path.chmod(0o600)
        self._inode, self._was_there = self._path.stat().st_ino, True
        return database

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
