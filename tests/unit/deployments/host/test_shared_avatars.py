"""The avatar store of a cluster: one remote place, a copy per machine."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from deployments.host.avatars import open_avatar_store
from deployments.host.mirrored_avatars import MirroredAvatarStore
from kernels.errors import InvalidInputError
from pipeline.avatars.store import AvatarNotFoundError, AvatarStore
from pipeline.mini.registration import make_avatar
from pipeline.store_error import StoreUnreachableError
from pipeline.types import Avatar

URI = "memory://cluster/avatars"


@pytest.fixture(autouse=True)
def _empty_memory() -> None:
    fs = fsspec.filesystem("memory")
    if fs.exists("/cluster"):
        fs.rm("/cluster", recursive=True)


@pytest.fixture
def avatar() -> Avatar:
    rng = np.random.default_rng(3)
    canvas = rng.integers(0, 255, (640, 480, 3), dtype=np.uint8)
    landmarks = np.stack([rng.uniform(150, 330, 468), rng.uniform(200, 420, 468), np.zeros(468)], axis=1)
    return make_avatar(canvas, landmarks.astype(np.float32), "Someone")


def machine(tmp_path: Path, name: str) -> MirroredAvatarStore:
    return MirroredAvatarStore(URI, tmp_path / name)


def test_what_one_machine_stores_another_finds(tmp_path: Path, avatar: Avatar) -> None:
    machine(tmp_path, "a").put(avatar)
    other = machine(tmp_path, "b")
    assert [(row.avatar_id, row.name, row.width) for row in other.list()] == [(avatar.avatar_id, "Someone", 480)]
    loaded = other.get(avatar.avatar_id)
    np.testing.assert_array_equal(loaded.canvas_rgb, avatar.canvas_rgb)
    assert other.preview(avatar.avatar_id)[:2] == b"\xff\xd8"
    assert [path.name for path in (tmp_path / "b").iterdir()] == [avatar.avatar_id], "leftovers"


def test_a_name_is_kept_where_another_machine_has_given_one(tmp_path: Path, avatar: Avatar) -> None:
    machine(tmp_path, "a").put(avatar)
    same = replace(avatar, name="IMG_1")
    assert machine(tmp_path, "b").put(same, rename=False).name == "Someone"
    assert machine(tmp_path, "c").list()[0].name == "Someone"
    assert machine(tmp_path, "b").put(same).name == "IMG_1" == machine(tmp_path, "c").list()[0].name


def test_another_process_that_was_faster_is_no_error(
    tmp_path: Path, avatar: Avatar, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(tmp_path, "a").put(avatar)
    rename = Path.rename

    def too_late(staging: Path, target: Path) -> Path:
        shutil.copytree(staging, target)
        return rename(staging, target)

    monkeypatch.setattr(Path, "rename", too_late)
    assert machine(tmp_path, "b").get(avatar.avatar_id).name == "Someone"
    assert [path.name for path in (tmp_path / "b").iterdir()] == [avatar.avatar_id], "leftovers"


def test_what_another_version_or_nobody_can_read_is_left_out_of_the_list(tmp_path: Path, avatar: Avatar) -> None:
    store = machine(tmp_path, "a")
    store.put(avatar)
    fs = fsspec.filesystem("memory")
    for name, text in (("1" * 32, b'{"schema_version": 99}'), ("2" * 32, b"no json"), ("3" * 32, b"{}")):
        fs.pipe_file(f"/cluster/avatars/{name}/manifest.json", text)
    fs.pipe_file(f"/cluster/avatars/{'4' * 32}/preview.jpg", b"x")
    [row] = store.list()
    assert row.avatar_id == avatar.avatar_id
    assert row.size_bytes == sum(file.stat().st_size for file in (tmp_path / "a" / row.avatar_id).iterdir())


def test_a_bundle_without_its_manifest_does_not_exist(tmp_path: Path, avatar: Avatar) -> None:
    """The manifest is written last, so this is what a half-finished upload looks like."""
    machine(tmp_path, "a").put(avatar)
    fsspec.filesystem("memory").rm(f"/cluster/avatars/{avatar.avatar_id}/manifest.json")
    other = machine(tmp_path, "b")
    assert other.list() == []
    with pytest.raises(AvatarNotFoundError):
        other.get(avatar.avatar_id)
    assert list((tmp_path / "b").iterdir()) == []


def test_damage_on_the_way_is_found(tmp_path: Path, avatar: Avatar) -> None:
    machine(tmp_path, "a").put(avatar)
    fs = fsspec.filesystem("memory")
    path = f"/cluster/avatars/{avatar.avatar_id}/arrays.safetensors"
    data = bytearray(fs.cat_file(path))
    data[-1] ^= 1
    fs.pipe_file(path, bytes(data))
    from pipeline.avatars.manifest import BundleError

    with pytest.raises(BundleError, match="arrays.safetensors"):
        machine(tmp_path, "b").get(avatar.avatar_id)


def test_deleted_is_deleted_for_new_machines(tmp_path: Path, avatar: Avatar) -> None:
    first = machine(tmp_path, "a")
    first.put(avatar)
    machine(tmp_path, "b").delete(avatar.avatar_id)
    with pytest.raises(AvatarNotFoundError):
        machine(tmp_path, "c").get(avatar.avatar_id)
    with pytest.raises(AvatarNotFoundError):
        first.delete(avatar.avatar_id)


def test_an_id_can_never_be_a_path(tmp_path: Path) -> None:
    for bad in ("../../etc/passwd", "", "0" * 31, "G" * 32):
        with pytest.raises(InvalidInputError):
            machine(tmp_path, "a").get(bad)
        with pytest.raises(InvalidInputError):
            machine(tmp_path, "a").delete(bad)


def test_a_store_that_does_not_answer_is_our_problem_not_the_callers(
    tmp_path: Path, avatar: Avatar, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = machine(tmp_path, "a")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(store._fs, "pipe_file", fail)
    with pytest.raises(StoreUnreachableError, match="no route") as error:
        store.put(avatar)
    assert error.value.retryable


def test_where_a_store_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    assert isinstance(open_avatar_store(""), AvatarStore)
    for uri in (str(tmp_path / "x"), f"file://{tmp_path}/x"):
        store = open_avatar_store(uri)
        assert isinstance(store, AvatarStore) and store.root == tmp_path / "x"
    assert isinstance(open_avatar_store(URI), MirroredAvatarStore)
