"""How much a store may hold, whoever puts at the same moment, and who makes room."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deployments.host.mirrored_avatars import MirroredAvatarStore
from pipeline.avatars.manifest import BundleError, BundleStorageError
from pipeline.avatars.quota import IN_USE_S, AvatarQuota, AvatarsFullError, HeldAvatar, leaving
from pipeline.avatars.store import AvatarStore
from pipeline.types import Avatar
from tests.support.http_server import small_avatar

NOW = 1_800_000_000.0
ROOM = 2**30


def guest(shade: int) -> Avatar:
    return small_avatar("", shade)


def held(name: str, used_ago: float | None, size_bytes: int = 10) -> HeldAvatar:
    return HeldAvatar(name, size_bytes, None if used_ago is None else NOW - used_ago)


@pytest.mark.parametrize(
    ("avatars", "quota", "gone"),
    [
        ([], AvatarQuota(1, 1), []),
        ([held("stays", None)], AvatarQuota(2, ROOM), []),
        ([held("old", 999), held("older", 1999)], AvatarQuota(2, ROOM), ["older"]),
        ([held("old", 999), held("older", 1999)], AvatarQuota(1, ROOM), ["older", "old"]),
        ([held("big", 999, 90), held("older", 1999, 5)], AvatarQuota(9, 95), ["older"]),
        ([held("big", 999, 90), held("older", 1999, 5)], AvatarQuota(9, 90), ["older", "big"]),
    ],
)
def test_the_longest_unused_leave_first(avatars: list[HeldAvatar], quota: AvatarQuota, gone: list[str]) -> None:
    assert [one.avatar_id for one in leaving(avatars, quota, NOW)] == gone


@pytest.mark.parametrize("kept", [held("stays", None), held("in use", IN_USE_S - 1), held("stuck", 9999)])
def test_none_leaves_that_stays_is_in_use_or_cannot_be_removed(kept: HeldAvatar) -> None:
    with pytest.raises(AvatarsFullError, match="1 presenters are registered"):
        leaving([kept], AvatarQuota(1, ROOM), NOW, frozenset({"stuck"}))
    with pytest.raises(AvatarsFullError, match="fill 10 bytes"):
        leaving([kept], AvatarQuota(9, 10), NOW, frozenset({"stuck"}))


@pytest.mark.parametrize("temporary", [False, True])
def test_putters_at_the_same_moment_never_go_over(tmp_path: Path, temporary: bool) -> None:
    """Each has a store of its own, as processes that share a folder have."""
    gate, quota = threading.Barrier(8), AvatarQuota(3, ROOM)
    avatars = [guest(100 + index) for index in range(8)]

    def put(avatar: Avatar) -> bool:
        store = AvatarStore(tmp_path)
        gate.wait(60)
        try:
            store.put(avatar, temporary=temporary, quota=quota)
        except AvatarsFullError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(put, avatars)) == 3
    assert len(AvatarStore(tmp_path).list()) == 3


def test_one_that_is_here_needs_no_room(tmp_path: Path) -> None:
    store, quota = AvatarStore(tmp_path), AvatarQuota(1, ROOM)
    stored = store.put(guest(100), temporary=True, quota=quota)
    assert store.put(small_avatar("Anna", 100), quota=quota).avatar_id == stored.avatar_id
    assert store.used_at(stored.avatar_id) is None, "it has come to stay"
    for full in (lambda: store.check_room(quota), lambda: store.put(guest(101), quota=quota)):
        with pytest.raises(AvatarsFullError):
            full()


def test_one_that_is_used_while_room_is_made_stays_and_another_goes(tmp_path: Path, monkeypatch: Any) -> None:
    now = [NOW]
    store: Any = AvatarStore(tmp_path, wall_clock=lambda: now[0])
    used, unused = (store.put(guest(shade), temporary=True).avatar_id for shade in (100, 101))
    os.utime(tmp_path / "temporary" / used, (NOW - 10, NOW - 10))
    now[0] += IN_USE_S + 1
    discard = store.discard

    def meanwhile(avatar_id: str, used_at: float) -> bool:
        if avatar_id == used:
            store.touch(used)
        return bool(discard(avatar_id, used_at))

    monkeypatch.setattr(store, "discard", meanwhile)
    fresh = store.put(guest(102), temporary=True, quota=AvatarQuota(2, ROOM)).avatar_id
    assert {one.avatar_id for one in store.list()} == {used, fresh} != {unused}


def test_room_is_made_although_the_disk_does_not_let_one_go(tmp_path: Path, monkeypatch: Any) -> None:
    now = [NOW]
    store: Any = AvatarStore(tmp_path, wall_clock=lambda: now[0])
    kept, gone = (store.put(guest(shade), temporary=True).avatar_id for shade in (100, 101))
    os.utime(tmp_path / "temporary" / kept, (NOW - 10, NOW - 10))
    now[0] += IN_USE_S + 1
    discard = store.discard

    def refuse(avatar_id: str, used_at: float) -> bool:
        if avatar_id == kept:
            raise BundleError(str(tmp_path), "cannot be removed (Permission denied)")
        return bool(discard(avatar_id, used_at))

    monkeypatch.setattr(store, "discard", refuse)
    fresh = store.put(guest(102), temporary=True, quota=AvatarQuota(2, ROOM)).avatar_id
    assert {one.avatar_id for one in store.list()} == {kept, fresh} != {gone}
    with pytest.raises(AvatarsFullError):
        store.put(guest(103), temporary=True, quota=AvatarQuota(2, ROOM))


def test_a_folder_that_cannot_be_made_or_locked_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "locked" / ".lock").mkdir(parents=True)
    for root in (tmp_path / "file" / "avatars", tmp_path / "locked"):
        with pytest.raises(BundleStorageError):
            AvatarStore(root).put(guest(100), quota=AvatarQuota(1, ROOM))


def test_a_remote_store_counts_what_all_machines_have_put(tmp_path: Path) -> None:
    machines = [MirroredAvatarStore(f"memory://quota/{tmp_path.name}", tmp_path / name) for name in ("a", "b")]
    quota = AvatarQuota(2, ROOM)
    first = machines[0].put(guest(100), quota=quota)
    machines[1].put(guest(101), quota=quota)
    for machine in machines:
        with pytest.raises(AvatarsFullError):
            machine.put(guest(102), quota=quota)
        with pytest.raises(AvatarsFullError):
            machine.check_room(quota)
        assert machine.put(guest(100), quota=quota).avatar_id == first.avatar_id
