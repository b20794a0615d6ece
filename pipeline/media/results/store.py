"""Finished files that can be fetched for a while, bounded in bytes, with expiry and tombstones.

Everything that must be known about a result is in file names, so one listing is enough to tidy up and several processes can share
a place without a lock: `<id>.mp4` is a result, `<id>.gone` the tombstone of one that expired or had to make room. An id starts
with the time at which it expires, goes on with 80 random bits, so it cannot be guessed and is no path, and ends with the marks
(`pipeline.marked_ids`) of the presenter that it shows and of its owner, so that all that belongs to either can be found.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import BinaryIO, Final

from engines.weights.home import liveanchor_home
from kernels.errors import InvalidInputError
from pipeline.marked_ids import MARK_DIGITS, bears, marked
from pipeline.media.results.files import ResultFiles, files_at
from pipeline.store_error import StoreUnreachableError, store_error

TOMBSTONE_S: Final = 24 * 3600.0
_TIME_DIGITS: Final = 12
_RANDOM_BYTES: Final = 10
ID_DIGITS: Final = _TIME_DIGITS + 2 * _RANDOM_BYTES
"""Digits of an id without marks; no two ids have the same ones."""
_ID: Final = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}(?:[0-9a-f]{{{MARK_DIGITS}}}){{0,2}}")
FILE: Final = ".mp4"
_GONE: Final = ".gone"
_ALLOWED: Final = "the id of a result that POST /api/generate has answered"


class ResultNotFoundError(InvalidInputError):
    """No such result was ever made here, or it is long forgotten."""

    code = "result_not_found"


class ResultExpiredError(InvalidInputError):
    """The result was here and is not any more."""

    code = "result_expired"


class ResultTooLargeError(InvalidInputError):
    """A file is larger than everything that the store may hold."""

    code = "result_too_large"


@dataclass(frozen=True)
class StoredResult:
    """A result that can be fetched: its id, size in bytes, and the second since the epoch at which it expires."""

    result_id: str
    size: int
    expires_at: float


class PendingResult:
    """A result that is being written; it cannot be fetched before `commit` has given its id.

    Args:
        store: Where it goes.
        result_id: Its id.
    """

    def __init__(self, store: ResultsStore, result_id: str) -> None:
        self._store = store
        self.result_id = result_id
        self._size = 0
        self._open = True
        with store.reaching():
            self._file = store.files.begin(result_id + FILE)

    def write(self, data: bytes) -> None:
        """Append.

        Raises:
            ResultTooLargeError: The file alone is larger than the store.
            StoreUnreachableError: The place does not take it.
        """
        self._size += len(data)
        if self._size > self._store.max_bytes:
            allowed = f"a file of at most {self._store.max_bytes} bytes; POST /generate gives longer ones"
            raise ResultTooLargeError("audio", "speech whose file is too large to be kept", allowed)
        with self._store.reaching():
            self._file.write(data)

    def commit(self) -> StoredResult:
        """Finish the file and make room for it; older results go first.

        Raises:
            StoreUnreachableError: The place does not take it.
        """
        with self._store.reaching():
            self._file.commit()
        self._open = False
        self._store.tidy(keep=self.result_id)
        return StoredResult(self.result_id, self._size, expiry_of(self.result_id))

    def abandon(self) -> None:
        """Leave nothing behind; does nothing after `commit`."""
        if not self._open:
            return
        self._open = False
        with self._store.reaching():
            self._file.abandon()


class ResultsStore:
    """Create and read results. Safe to share between threads and processes.

    Args:
        uri: A folder, an object store such as `s3://bucket/results`, an fsspec URI, or empty for LIVEANCHOR_HOME.
        max_bytes: Bound on all results together; while files are being written it may be exceeded by what is not finished yet.
        ttl_s: Seconds for which a result can be fetched.
        wall_clock: Seconds since the epoch.
        files: The files of the place; None for those at `uri`.

    Raises:
        StoreUnreachableError: The address is such that nothing can be there.
    """

    def __init__(
        self,
        uri: str,
        max_bytes: int,
        ttl_s: float,
        wall_clock: Callable[[], float] = time.time,
        files: ResultFiles | None = None,
    ) -> None:
        self.uri = uri or str(liveanchor_home() / "results")
        self.max_bytes = max_bytes
        self._ttl_s = ttl_s
        self._wall_clock = wall_clock
        with self.reaching():
            self.files = files or files_at(self.uri)

    def create(self, ttl_s: float | None = None, marks: Sequence[str] = ()) -> PendingResult:
        """Begin a result.

        Args:
            ttl_s: Seconds for which it can be fetched; None for as long as the store says.
            marks: What it belongs to, as `about` finds it: the id of its presenter, then its owner where it has one.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        expires_ms = int((self._wall_clock() + (self._ttl_s if ttl_s is None else ttl_s)) * 1000)
        return PendingResult(
            self, reduce(marked, marks, f"{expires_ms:0{_TIME_DIGITS}x}{secrets.token_hex(_RANDOM_BYTES)}")
        )

    def about(self, word: str) -> list[str]:
        """Ids of the results, and of those that are not kept any more, that bear the mark of a presenter or of an owner.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with self.reaching():
            try:
                results, tombstones = self._listing()
            except FileNotFoundError:  # a folder that no result has come to yet
                return []
        return sorted(one for one in {*results, *tombstones} if any(bears(part, word) for part in _parts(one)))

    def find(self, result_id: str) -> StoredResult:
        """Look a result up.

        Raises:
            ResultNotFoundError: It never existed here, or its tombstone is gone.
            ResultExpiredError: It expired, or made room for others.
            StoreUnreachableError: The place does not answer.
        """
        if not _ID.fullmatch(result_id):
            raise _not_found(result_id)
        expires_at, now = expiry_of(result_id), self._wall_clock()
        with self.reaching():
            size = self.files.size_of(result_id + FILE)
            if size is not None and now < expires_at:
                return StoredResult(result_id, size, expires_at)
            known = size is not None or self.files.size_of(result_id + _GONE) is not None
            if size is not None:
                self._retire(result_id)
        if known and now < expires_at + TOMBSTONE_S:
            raise ResultExpiredError("id", result_id, _ALLOWED, "this result is not kept any more; make it again")
        raise _not_found(result_id)

    def read(self, result_id: str, start: int, stop: int, piece_bytes: int = 256 * 1024) -> Iterator[bytes]:
        """Bytes [start, stop) of a result in pieces.

        A result that expires meanwhile is still read to its end where the place allows it (local folders do).

        Raises:
            StoreUnreachableError: The place does not answer, or the file has gone.
        """
        with self.reaching():
            file = self.open_file(result_id)
        with file:
            with self.reaching():
                file.seek(start)
            left = stop - start
            while left > 0:
                with self.reaching():
                    data = file.read(min(piece_bytes, left))
                if not data:
                    raise StoreUnreachableError(self.uri, "the file is shorter than it was")
                left -= len(data)
                yield data

    def tidy(self, keep: str = "") -> None:
        """Retire what has expired, then the oldest until the bound holds; forget old tombstones.

        Args:
            keep: A result that stays whatever its age.
        """
        now = self._wall_clock()
        with self.reaching():
            results, tombstones = self._listing()
            total = sum(results.values())
            for result_id in sorted(results):
                if result_id != keep and (expiry_of(result_id) <= now or total > self.max_bytes):
                    total -= results[result_id]
                    self._retire(result_id)
            for result_id in tombstones:
                if expiry_of(result_id) + TOMBSTONE_S <= now:
                    self.files.remove(result_id + _GONE)

    def open_file(self, result_id: str) -> BinaryIO:
        """The file of a result, to be read within `reaching`."""
        return self.files.open(result_id + FILE)

    def link(self, result_id: str, seconds: float) -> str | None:
        """An address in the object store from which anybody can fetch a result for so long; None where results lie elsewhere.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with self.reaching():
            return self.files.link(result_id + FILE, seconds)

    def discard(self, result_id: str) -> None:
        """Remove a result at once, as if it had never been; does nothing where there is none.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with self.reaching():
            self.files.remove(result_id + FILE)
            self.files.remove(result_id + _GONE)

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Turn what the place raises into our own error."""
        try:
            yield
        except OSError as error:
            raise store_error(self.uri, error) from error

    def _retire(self, result_id: str) -> None:
        self.files.put_empty(result_id + _GONE)
        self.files.remove(result_id + FILE)

    def _listing(self) -> tuple[dict[str, int], list[str]]:
        """Sizes of results by id, and ids of tombstones."""
        results: dict[str, int] = {}
        tombstones: list[str] = []
        for name, size in self.files.listing().items():
            stem, dot, ending = name.rpartition(".")
            if not _ID.fullmatch(stem):
                continue
            if dot + ending == FILE:
                results[stem] = size
            elif dot + ending == _GONE:
                tombstones.append(stem)
        return results, tombstones


async def keep(
    store: ResultsStore,
    pieces: AsyncGenerator[bytes, None],
    ttl_s: float | None = None,
    *,
    avatar_id: str,
    owner: str = "",
) -> StoredResult:
    """Write a file to the store as it comes; nothing of it stays where that fails or is cancelled.

    Args:
        store: Where it goes.
        pieces: The file from its start.
        ttl_s: Seconds for which it can be fetched; None for as long as the store says.
        avatar_id: The presenter that it shows.
        owner: Whose it is; empty for nobody's.

    Raises:
        ResultTooLargeError: The file alone is larger than the store.
        StoreUnreachableError: The store does not take it.
    """
    async with aclosing(pieces):
        pending = await asyncio.to_thread(store.create, ttl_s, (avatar_id, owner) if owner else (avatar_id,))
        try:
            async for data in pieces:
                await asyncio.to_thread(pending.write, data)
            return await asyncio.to_thread(pending.commit)
        finally:
            await asyncio.to_thread(pending.abandon)


def expiry_of(result_id: str) -> float:
    """Second since the epoch at which a result with this id expires."""
    return int(result_id[:_TIME_DIGITS], 16) / 1000


def _parts(result_id: str) -> Iterator[str]:
    """The id up to each of its marks."""
    return (result_id[:stop] for stop in range(ID_DIGITS + MARK_DIGITS, len(result_id) + 1, MARK_DIGITS))


def _not_found(result_id: str) -> ResultNotFoundError:
    return ResultNotFoundError("id", repr(result_id[:80]), _ALLOWED)
