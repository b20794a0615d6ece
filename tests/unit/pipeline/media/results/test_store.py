"""Results: expiry, tombstones, the byte bound, hostile ids, several processes in one place."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import structlog
from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile

from pipeline.media.results.fsspec_files import FsspecFiles
from pipeline.media.results.store import (
    TOMBSTONE_S,
    ResultExpiredError,
    ResultNotFoundError,
    ResultsStore,
    ResultTooLargeError,
    keep,
)
from pipeline.store_error import StoreUnreachableError
from tests.support.manual_clock import ManualClock

PRESENTER = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000.0)


@pytest.fixture(params=["folder", "memory", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> ResultsStore:
    if request.param == "objects":
        return in_objects(clock)
    uri = str(tmp_path / "results") if request.param == "folder" else f"memory://{tmp_path.name}"
    return ResultsStore(uri, max_bytes=1000, ttl_s=60, wall_clock=clock)


def in_objects(clock: ManualClock, max_bytes: int = 1000) -> ResultsStore:
    memory = pytest.importorskip("obstore.store").MemoryStore()
    from pipeline.media.results.object_files import ObjectFiles

    return ResultsStore("objects", max_bytes, ttl_s=60, wall_clock=clock, files=ObjectFiles(memory))


def put(store: ResultsStore, data: bytes) -> str:
    pending = store.create()
    pending.write(data)
    return pending.commit().result_id


def test_results_are_found_by_what_they_show_and_by_whose_they_are(store: ResultsStore, clock: ManualClock) -> None:
    async def kept(avatar_id: str, owner: str) -> str:
        async def pieces() -> AsyncGenerator[bytes, None]:
            yield b"abc"

        return (await keep(store, pieces(), avatar_id=avatar_id, owner=owner)).result_id

    plain = put(store, b"of nobody")
    annas, bertas = asyncio.run(kept(PRESENTER, "anna")), asyncio.run(kept(PRESENTER, "berta"))
    shared, other = asyncio.run(kept(PRESENTER, "")), asyncio.run(kept("f" * 32, "anna"))
    assert store.about("anna") == sorted([annas, other]) and store.about("berta") == [bertas]
    assert store.about(PRESENTER) == sorted([annas, bertas, shared]) and store.about("nobody") == []
    clock.now += 61
    store.tidy()
    assert store.about("anna") == sorted([annas, other]), "that they were there is known, too"
    for one in store.about("anna"):
        store.discard(one)
    assert store.about("anna") == [] and store.about(PRESENTER) == sorted([bertas, shared])
    with pytest.raises(ResultNotFoundError):
        store.find(annas)
    with pytest.raises(ResultExpiredError):
        store.find(plain)


def test_a_result_comes_back_whole_and_in_parts(store: ResultsStore, clock: ManualClock) -> None:
    pending = store.create()
    for piece in (b"abc", b"", b"defgh"):
        pending.write(piece)
    stored = pending.commit()
    assert stored.size == 8 and stored.expires_at == clock.now + 60
    assert store.find(stored.result_id) == stored
    assert b"".join(store.read(stored.result_id, 0, 8, piece_bytes=3)) == b"abcdefgh"
    assert b"".join(store.read(stored.result_id, 2, 5)) == b"cde"
    assert b"".join(store.read(stored.result_id, 5, 5)) == b""


def test_expiry_leaves_a_tombstone_for_a_day(store: ResultsStore, clock: ManualClock) -> None:
    result = put(store, b"x")
    clock.now += 59.9
    store.find(result)
    clock.now += 0.2
    for _ in range(2):
        with pytest.raises(ResultExpiredError):
            store.find(result)
    with pytest.raises(StoreUnreachableError):
        list(store.read(result, 0, 1))
    clock.now += TOMBSTONE_S - 1
    store.tidy()
    with pytest.raises(ResultExpiredError):
        store.find(result)
    clock.now += 1
    with pytest.raises(ResultNotFoundError):
        store.find(result)
    store.tidy()
    clock.now -= 2
    with pytest.raises(ResultNotFoundError):  # the tombstone itself is gone
        store.find(result)


def test_the_oldest_make_room(store: ResultsStore, clock: ManualClock) -> None:
    results = []
    for _ in range(4):
        results.append(put(store, b"y" * 400))
        clock.now += 1
    with pytest.raises(ResultExpiredError):
        store.find(results[0])
    with pytest.raises(ResultExpiredError):
        store.find(results[1])
    assert store.find(results[2]).size == store.find(results[3]).size == 400


def test_a_file_larger_than_the_store_is_refused_while_it_is_written(store: ResultsStore) -> None:
    kept = put(store, b"z" * 600)
    pending = store.create()
    pending.write(b"y" * 1000)
    with pytest.raises(ResultTooLargeError):
        pending.write(b"y")
    pending.abandon()
    pending.abandon()
    assert store.find(kept).size == 600
    with pytest.raises(ResultNotFoundError):
        store.find(pending.result_id)


def test_abandoning_after_commit_keeps_the_file(store: ResultsStore) -> None:
    pending = store.create()
    pending.write(b"q")
    pending.commit()
    pending.abandon()
    assert store.find(pending.result_id).size == 1


@pytest.mark.parametrize(
    "bad", ["", "..", "../../etc/passwd", "a" * 31, "g" * 32, "A" * 32, "0" * 33, "0" * 32, "\0" * 32]
)
def test_ids_that_never_were(store: ResultsStore, bad: str) -> None:
    put(store, b"x")
    with pytest.raises(ResultNotFoundError):
        store.find(bad)


def test_an_id_made_up_for_the_past_was_never_here(store: ResultsStore, clock: ManualClock) -> None:
    put(store, b"x")
    made_up = f"{int((clock.now - 5) * 1000):012x}{'0' * 20}"
    with pytest.raises(ResultNotFoundError):
        store.find(made_up)


def test_two_stores_share_a_place(tmp_path: Path, clock: ManualClock) -> None:
    one, two = (ResultsStore(str(tmp_path), 1000, 60, clock) for _ in range(2))
    result = put(one, b"shared")
    assert b"".join(two.read(result, 0, two.find(result).size)) == b"shared"
    clock.now += 100
    two.tidy()
    one.tidy()
    with pytest.raises(ResultExpiredError):
        one.find(result)


def test_reading_goes_on_while_the_result_expires(tmp_path: Path, clock: ManualClock) -> None:
    store = ResultsStore(str(tmp_path), 1000, 60, clock)
    result = put(store, b"0123456789")
    pieces = store.read(result, 0, 10, piece_bytes=4)
    first = next(pieces)
    clock.now += 61
    store.tidy()
    assert first + b"".join(pieces) == b"0123456789"


def test_foreign_files_are_left_alone(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "notes.mp4").write_bytes(b"n" * 5000)
    store = ResultsStore(str(tmp_path), 1000, 60, clock)
    result = put(store, b"x")
    assert store.find(result).size == 1 and (tmp_path / "notes.mp4").exists()


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreUnreachableError, match="does not answer"):
        ResultsStore(str(tmp_path / "file"), 1000, 60, clock).create()


def test_empty_uri_is_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    assert ResultsStore("", 1000, 60).uri == str(tmp_path / "results")


# what is abandoned leaves nothing, at no moment


class RemoteFile(AbstractBufferedFile):
    """A file of a remote place: closing it publishes what there is."""

    def _initiate_upload(self) -> None:
        self.fs.uploads.append(self.path)

    def _upload_chunk(self, final: bool = False) -> bool:
        if final:
            self.fs.published.append(self.path)
        return True

    def discard(self) -> None:
        if self.path in self.fs.uploads:
            self.fs.uploads.remove(self.path)


class RemotePlace(AbstractFileSystem):
    """Just enough of an object store of fsspec's."""

    protocol = "remote"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.uploads: list[str] = []
        self.published: list[str] = []

    def _open(self, path: str, mode: str = "rb", **options: Any) -> RemoteFile:
        return RemoteFile(self, path, mode, block_size=100)

    def rm_file(self, path: str) -> None:
        raise FileNotFoundError(path)


@pytest.mark.parametrize("size", [10, 150, 600])
def test_a_remote_file_that_is_abandoned_is_never_published(clock: ManualClock, size: int) -> None:
    """fsspec publishes a truncated object where a file is closed after a failure, and where it is forgotten."""
    remote = RemotePlace()
    files = FsspecFiles("memory://unused")
    files._fs, files._root = remote, "bucket"
    store = ResultsStore("remote", 1000, 60, clock, files)
    pending = store.create()
    pending.write(b"y" * size)
    assert len(remote.uploads) == (size > 100)
    pending.abandon()
    del pending
    gc.collect()
    assert remote.uploads == [] and remote.published == []
    done = store.create()
    done.write(b"y" * size)
    done._file.commit()
    assert len(remote.published) == 1


def test_an_object_that_is_abandoned_in_the_middle_is_not_there(clock: ManualClock) -> None:
    store = in_objects(clock, max_bytes=2**30)
    pending = store.create()
    for _ in range(3):
        pending.write(bytes(2**23))
    assert store.files.listing() == {}
    pending.abandon()
    assert store.files.listing() == {}


def test_a_job_that_fails_or_is_cancelled_leaves_no_object(clock: ManualClock) -> None:
    store = in_objects(clock, max_bytes=2**30)

    async def failing() -> AsyncGenerator[bytes, None]:
        yield bytes(2**24)
        raise StoreUnreachableError("the host", "died")

    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield bytes(2**20)
            await asyncio.sleep(0)

    async def go() -> None:
        with pytest.raises(StoreUnreachableError):
            await keep(store, failing(), avatar_id=PRESENTER)
        keeping = asyncio.create_task(keep(store, endless(), avatar_id=PRESENTER))
        await asyncio.sleep(0.05)
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping

    asyncio.run(go())
    assert store.files.listing() == {}


def test_what_an_object_store_says_stays_in_the_log(clock: ManualClock) -> None:
    exceptions = pytest.importorskip("obstore.exceptions")
    from pipeline.media.results.object_files import _reaching

    store = in_objects(clock)
    for error, said in ((exceptions.PermissionDeniedError, "denied"), (exceptions.GenericError, "failed")):
        with structlog.testing.capture_logs() as logs, pytest.raises(StoreUnreachableError, match=said) as raised:
            with store.reaching(), _reaching():
                raise error("https://user:secret@bucket.example/x")
        assert "secret" not in str(raised.value) and "secret" in str(logs)
