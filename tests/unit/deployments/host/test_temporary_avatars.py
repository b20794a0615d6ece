"""Avatars that jobs bring along: kept while they are used, gone afterwards, in a folder and in a remote place."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
import structlog

from deployments.host.avatars import Avatars
from deployments.host.avatars_in_use import BEAT_S, TIDY_S, AvatarsInUse
from deployments.host.mirrored_avatars import MirroredAvatarStore
from pipeline.avatars import store as avatar_store
from pipeline.avatars.manifest import BundleError
from pipeline.avatars.quota import IN_USE_S
from pipeline.avatars.store import STALE_AFTER_S, TEMPORARY_FOLDER, AvatarNotFoundError, AvatarStore
from pipeline.store_error import StoreUnreachableError
from pipeline.types import Avatar
from tests.support.http_server import small_avatar

DAY_S = 24 * 3600.0
REMOTE = "/temporary/avatars"


class Clock:
    """Seconds since the epoch, as the test says."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


Open = Callable[[str], Avatars]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["folder", "remote"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Open:
    """The same store as machines of these names see it; the folders of the remote one are called so that they could mislead."""
    fs = fsspec.filesystem("memory")
    if fs.exists(REMOTE):
        fs.rm(REMOTE, recursive=True)

    def open_store(name: str) -> Avatars:
        if request.param == "folder":
            return AvatarStore(tmp_path / "shared", wall_clock=clock)
        return MirroredAvatarStore(f"memory:/{REMOTE}", tmp_path / name, wall_clock=clock)

    return open_store


def guest(shade: int = 100) -> Avatar:
    return small_avatar("", shade)


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def ids(store: Avatars) -> set[str]:
    return {one.avatar_id for one in store.list()}


def test_what_nobody_uses_goes_and_what_was_registered_stays(machine: Open, clock: Clock) -> None:
    store = machine("a")
    stays = store.put(small_avatar("Anna", 90)).avatar_id
    first, second = (store.put(guest(shade), temporary=True).avatar_id for shade in (100, 101))
    assert {one.avatar_id: one.used_at for one in store.list()} == {stays: None, first: clock.now, second: clock.now}
    assert store.used_at(stays) is None and store.used_at(first) == clock.now
    clock.now += 600
    machine("b").touch(second)
    machine("b").touch(stays)
    assert store.used_at(second) == clock.now
    clock.now += DAY_S - 300
    assert store.expire(DAY_S) == 1 and ids(store) == {stays, second}
    clock.now += 400
    assert store.expire(math.inf) == 0
    assert store.expire(DAY_S) == 1 and ids(store) == ids(machine("b")) == {stays}
    for gone in (first, second):
        for call in (store.get, store.touch, store.used_at, store.preview, store.delete):
            with pytest.raises(AvatarNotFoundError):
                call(gone)


def test_a_temporary_bundle_is_the_same_bytes(tmp_path: Path) -> None:
    one, other = AvatarStore(tmp_path / "one"), AvatarStore(tmp_path / "other")
    avatar_id = one.put(guest()).avatar_id
    assert other.put(guest(), temporary=True).avatar_id == avatar_id
    assert files_of(tmp_path / "one" / avatar_id) == files_of(tmp_path / "other" / TEMPORARY_FOLDER / avatar_id)
    other.put(guest())
    assert files_of(tmp_path / "one" / avatar_id) == files_of(tmp_path / "other" / avatar_id)


def test_registering_it_makes_it_stay(machine: Open, clock: Clock) -> None:
    store, other = machine("a"), machine("b")
    avatar_id = store.put(guest(), temporary=True).avatar_id
    assert other.get(avatar_id).name == ""
    assert other.put(replace(guest(), name="Anna"), rename=False).name == "Anna"
    clock.now += 2 * DAY_S
    assert store.expire(DAY_S) == 0
    assert [(one.name, one.used_at) for one in store.list()] == [("Anna", None)]
    store.touch(avatar_id)
    assert store.used_at(avatar_id) is None and store.get(avatar_id).name == "Anna"
    assert not store.discard(avatar_id, math.inf)


def test_a_job_with_the_picture_of_one_that_stays_changes_nothing(machine: Open, clock: Clock) -> None:
    store, other = machine("a"), machine("b")
    avatar_id = store.put(small_avatar("Anna", 100)).avatar_id
    assert other.put(guest(), temporary=True).name == "Anna"
    assert [one.used_at for one in store.list()] == [None] and other.used_at(avatar_id) is None
    store.delete(avatar_id)
    other.put(guest(), temporary=True)
    assert store.used_at(avatar_id) == clock.now, "removed by hand, and brought along again"


def test_one_that_stays_and_is_deleted_while_a_job_brings_it_along_is_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = AvatarStore(tmp_path)
    avatar_id = store.put(small_avatar("Anna", 100)).avatar_id
    touch = store.touch

    def deleted_before(one: str) -> None:
        AvatarStore(tmp_path).delete(one)
        monkeypatch.undo()
        touch(one)

    monkeypatch.setattr(store, "touch", deleted_before)
    assert store.put(guest(), temporary=True).name == ""
    assert store.used_at(avatar_id) is not None and not (tmp_path / avatar_id).exists()


def test_what_is_used_since_is_not_discarded(machine: Open, clock: Clock) -> None:
    store = machine("a")
    avatar_id = store.put(guest(), temporary=True).avatar_id
    [listed] = store.list()
    assert listed.used_at is not None
    clock.now += 1
    machine("b").touch(avatar_id)
    assert not store.discard(avatar_id, listed.used_at) and ids(store) == {avatar_id}
    assert store.discard(avatar_id, clock.now) and ids(store) == set()
    assert not store.discard(avatar_id, clock.now), "another process was faster"


def test_deleted_by_hand(machine: Open) -> None:
    store, other = machine("a"), machine("b")
    avatar_id = store.put(guest(), temporary=True).avatar_id
    store.delete(avatar_id)
    assert ids(other) == set() and other.expire(DAY_S) == 0
    with pytest.raises(AvatarNotFoundError):
        other.touch(avatar_id)


def test_two_processes_sweep_at_once(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = AvatarStore(tmp_path, wall_clock=clock), AvatarStore(tmp_path, wall_clock=clock)
    for shade in (100, 101, 102):
        ours.put(guest(shade), temporary=True)
    clock.now += 2 * DAY_S
    remove = ours._remove

    def too_late(folder: Path) -> None:
        theirs.expire(DAY_S)
        remove(folder)

    monkeypatch.setattr(ours, "_remove", too_late)
    assert ours.expire(DAY_S) == 0 and ours.list() == []
    assert [path.name for path in tmp_path.rglob("*")] == [TEMPORARY_FOLDER], "leftovers"


def test_a_sweep_that_comes_in_between_does_not_lose_a_jobs_presenter(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = AvatarStore(tmp_path, wall_clock=clock)
    store.put(guest(), temporary=True)
    clock.now += 2 * DAY_S
    write, calls = avatar_store.write_bundle, []

    def swept_after(avatar: Avatar, target: Path) -> None:
        write(avatar, target)
        if not calls:
            assert AvatarStore(tmp_path, wall_clock=clock).expire(DAY_S) == 1
        calls.append(target)

    monkeypatch.setattr(avatar_store, "write_bundle", swept_after)
    stored = store.put(guest(), temporary=True)
    assert len(calls) == 2 and store.get(stored.avatar_id).avatar_id == stored.avatar_id


@pytest.mark.parametrize("comes_to_stay", [False, True])
def test_a_bundle_that_goes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_to_stay: bool
) -> None:
    other = AvatarStore(tmp_path)
    avatar_id = other.put(guest(), temporary=True).avatar_id
    store = AvatarStore(tmp_path)
    load = store._load

    def too_late(wanted: str, folder: Path) -> Avatar:
        if comes_to_stay:
            other.put(guest())
        elif folder.is_dir():
            other.delete(avatar_id)
        return load(wanted, folder)

    monkeypatch.setattr(store, "_load", too_late)
    if comes_to_stay:
        assert store.get(avatar_id).avatar_id == avatar_id
    else:
        with pytest.raises(AvatarNotFoundError):
            store.get(avatar_id)


@pytest.mark.parametrize("by", ["id", "list"])
def test_one_that_comes_to_stay_between_two_looks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    store, other = AvatarStore(tmp_path), AvatarStore(tmp_path)
    avatar_id = store.put(guest(), temporary=True).avatar_id
    owner, name = (Path, "is_dir") if by == "id" else (AvatarStore, "_bundles")
    look, looked = getattr(owner, name), []

    def meanwhile(*args: Any) -> Any:
        answer = look(*args)
        if not looked:
            answer = answer if by == "id" else iter(list(answer))
            looked.append(answer)
            other.put(guest())
        return answer

    monkeypatch.setattr(owner, name, meanwhile)
    found = {store.get(avatar_id).avatar_id} if by == "id" else ids(store)
    assert looked and found == {avatar_id} and store.used_at(avatar_id) is None


def test_one_that_the_disk_does_not_let_go_keeps_no_other(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = AvatarStore(tmp_path, wall_clock=clock)
    stuck, *others = (store.put(guest(shade), temporary=True).avatar_id for shade in (100, 101, 102))
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.name == stuck:
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr(store, "_bundles", lambda place: [place / name for name in (stuck, *others)])
    clock.now += 2 * DAY_S
    with pytest.raises(BundleError, match=f"{stuck}.*Permission denied"):
        store.expire(DAY_S)
    assert [path.name for path in (tmp_path / TEMPORARY_FOLDER).iterdir()] == [stuck]
    assert [path.name for path in tmp_path.iterdir()] == [TEMPORARY_FOLDER], "leftovers"


def test_leftovers_beside_temporary_ones_are_swept(tmp_path: Path) -> None:
    store = AvatarStore(tmp_path)
    avatar_id = store.put(guest(), temporary=True).avatar_id
    left = tmp_path / TEMPORARY_FOLDER / ".new-left"
    left.mkdir()
    os.utime(left, (0, 0))
    store.put(guest(101))
    assert [path.name for path in (tmp_path / TEMPORARY_FOLDER).iterdir()] == [avatar_id]


# a remote place


@pytest.fixture
def remote(tmp_path: Path, clock: Clock) -> Callable[[str], MirroredAvatarStore]:
    fs = fsspec.filesystem("memory")
    if fs.exists(REMOTE):
        fs.rm(REMOTE, recursive=True)
    return lambda name: MirroredAvatarStore(f"memory:/{REMOTE}", tmp_path / name, wall_clock=clock)


def marks() -> list[str]:
    fs = fsspec.filesystem("memory")
    return [path.rpartition("/")[2] for path in fs.find(f"{REMOTE}/{TEMPORARY_FOLDER}", maxdepth=1)]


def test_marks_of_uses_do_not_pile_up(remote: Callable[[str], MirroredAvatarStore], clock: Clock) -> None:
    store = remote("a")
    avatar_id = store.put(guest(), temporary=True).avatar_id
    for _ in range(5):
        clock.now += BEAT_S
        store.touch(avatar_id)
    assert len(marks()) == 6
    assert store.expire(DAY_S) == 0 and marks() == [f"{avatar_id}.{int(clock.now * 1000):012x}"]
    store.delete(avatar_id)
    store.expire(DAY_S)
    assert len(marks()) == 1, "whoever is about to upload has marked it first"
    clock.now += IN_USE_S + 1
    store.expire(DAY_S)
    assert marks() == []


def test_a_copy_here_of_what_is_gone_is_not_used(remote: Callable[[str], MirroredAvatarStore], tmp_path: Path) -> None:
    avatar_id = remote("a").put(guest(), temporary=True).avatar_id
    store = remote("b")
    store.get(avatar_id)
    remote("a").delete(avatar_id)
    with pytest.raises(AvatarNotFoundError):
        store.touch(avatar_id)
    assert list((tmp_path / "b").rglob(avatar_id)) == []


def test_copies_of_strangers_do_not_stay_on_machines_that_only_draw(
    remote: Callable[[str], MirroredAvatarStore], tmp_path: Path, clock: Clock
) -> None:
    first, second = (remote("a").put(guest(shade), temporary=True).avatar_id for shade in (100, 101))
    renderer = remote("b")
    drawn = renderer.get(first)
    clock.now += STALE_AFTER_S + 1
    renderer.get(second)
    assert [path.name for path in (tmp_path / "b" / TEMPORARY_FOLDER).iterdir()] == [second]
    assert drawn.canvas_rgb.max() == 100, "whoever draws it keeps it"
    assert renderer.get(first).avatar_id == first


def test_an_upload_that_somebody_makes_permanent_meanwhile(
    remote: Callable[[str], MirroredAvatarStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, neighbour = remote("a"), remote("a")
    mark = store._mark

    def meanwhile(avatar_id: str) -> None:
        neighbour.put(small_avatar("Anna", 100))
        mark(avatar_id)

    monkeypatch.setattr(store, "_mark", meanwhile)
    avatar_id = store.put(guest(), temporary=True).avatar_id
    assert [(one.avatar_id, one.name, one.used_at) for one in remote("b").list()] == [(avatar_id, "Anna", None)]


def test_half_of_a_bundle_goes_too(remote: Callable[[str], MirroredAvatarStore], clock: Clock) -> None:
    """What is left when somebody dies while uploading or removing."""
    store, fs = remote("a"), fsspec.filesystem("memory")
    avatar_id = store.put(guest(), temporary=True).avatar_id
    fs.rm(f"{REMOTE}/{TEMPORARY_FOLDER}/{avatar_id}/manifest.json")
    clock.now += 2 * DAY_S
    store.expire(DAY_S)
    store.expire(DAY_S)
    assert fs.find(REMOTE) == []


# those who use them


def test_in_use_means_kept(tmp_path: Path, clock: Clock) -> None:
    store, seconds = AvatarStore(tmp_path, wall_clock=clock), [0.0]
    used, _ = (store.put(guest(shade), temporary=True).avatar_id for shade in (100, 101))
    tended = AvatarsInUse(store, 400.0, clock=lambda: seconds[0])

    async def hours() -> None:
        with tended.using(used), tended.using(used), tended.using(None), tended.using("0" * 32):
            for _ in range(100):
                clock.now += BEAT_S
                seconds[0] += BEAT_S
                await tended.beat()
                assert (store.used_at(used) or 0) > clock.now - IN_USE_S / 2
            assert ids(store) == {used}
        for _ in range(round((TIDY_S + 400) / BEAT_S) + 1):
            clock.now += BEAT_S
            seconds[0] += BEAT_S
            await tended.beat()

    asyncio.run(hours())
    assert ids(store) == set()


def test_looking_for_expired_ones_is_rare_but_a_list_never_shows_one(tmp_path: Path, clock: Clock) -> None:
    store, seconds = AvatarStore(tmp_path, wall_clock=clock), [0.0]
    tended = AvatarsInUse(store, 400.0, clock=lambda: seconds[0])
    asyncio.run(tended.beat())
    store.put(guest(), temporary=True)
    clock.now += 401
    seconds[0] += TIDY_S - 1
    asyncio.run(tended.beat())
    assert len(store.list()) == 1
    assert tended.listed() == [] and store.list() == []


def test_a_store_that_does_not_answer_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = AvatarStore(tmp_path)
    tended = AvatarsInUse(store, 0.0)

    def fail(*args: object) -> None:
        raise StoreUnreachableError("s3://bucket", "no route")

    monkeypatch.setattr(store, "expire", fail)
    with structlog.testing.capture_logs() as logs:
        asyncio.run(tended.beat())
    assert [entry["event"] for entry in logs] == ["avatars_not_tended"] and "no route" in logs[0]["reason"]


def test_one_that_gives_trouble_costs_the_others_no_beat(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = AvatarStore(tmp_path, wall_clock=clock)
    first, second = (store.put(guest(shade), temporary=True).avatar_id for shade in (100, 101))
    touch = store.touch

    def trouble(avatar_id: str) -> None:
        if avatar_id == first:
            raise RuntimeError("what a driver's library thinks of")
        touch(avatar_id)

    monkeypatch.setattr(store, "touch", trouble)
    tended = AvatarsInUse(store, 400.0, clock=lambda: clock.now)
    with tended.using(first), tended.using(second), structlog.testing.capture_logs() as logs:
        for _ in range(20):
            clock.now += BEAT_S
            asyncio.run(tended.beat())
    assert ids(store) == {second} and store.used_at(second) == clock.now
    assert logs[0]["reason"] == "RuntimeError: what a driver's library thinks of"


def test_a_list_shows_what_the_disk_does_not_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = AvatarStore(tmp_path)
    avatar_id = store.put(guest(), temporary=True).avatar_id

    def refuse(unused_s: float) -> int:
        raise BundleError(str(tmp_path), "cannot be removed (Permission denied)")

    monkeypatch.setattr(store, "expire", refuse)
    with structlog.testing.capture_logs() as logs:
        assert [one.avatar_id for one in AvatarsInUse(store, 400.0).listed()] == [avatar_id]
    assert "Permission denied" in logs[0]["reason"]


def test_zero_is_never(tmp_path: Path, clock: Clock) -> None:
    store = AvatarStore(tmp_path, wall_clock=clock)
    avatar_id = store.put(guest(), temporary=True).avatar_id
    clock.now += 1000 * DAY_S
    assert [one.avatar_id for one in AvatarsInUse(store, 0.0).listed()] == [avatar_id]
