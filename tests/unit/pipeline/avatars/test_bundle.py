"""Avatar bundles on disk and the store: identity, atomicity, damage, bounds."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from engines.motion_version import CONTROL_POINTS_VERSION
from kernels.errors import InvalidInputError, ShapeError
from pipeline.avatars.bundle import content_id, load_bundle, rename_avatar, write_bundle
from pipeline.avatars.manifest import (
    ARRAYS_FILE,
    MANIFEST_FILE,
    PREVIEW_FILE,
    BundleError,
    BundleSchemaError,
    read_manifest,
)
from pipeline.avatars.store import STALE_AFTER_S, AvatarNotFoundError, AvatarStore, avatars_dir
from pipeline.avatars.tensor_file import TensorFileError, map_tensors
from pipeline.mini.registration import make_avatar
from pipeline.presenter.template import landmarks_on
from pipeline.types import Avatar, FaceRect
from tests.support.paths import ROOT

UNKNOWN = "0" * 32


def _avatar(seed: int = 0, name: str = "Ada", width: int = 360, height: int = 640) -> Avatar:
    """An avatar with a random canvas; no face is needed for storing it."""
    canvas = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return make_avatar(canvas, landmarks_on(360), name)


def _same(a: Avatar, b: Avatar) -> bool:
    arrays = [(a.canvas_rgb, b.canvas_rgb), (a.mask, b.mask), (a.crop_to_canvas, b.crop_to_canvas)]
    arrays += [(a.tensors[key], b.tensors[key]) for key in a.tensors]
    same = all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in arrays)
    return (
        same
        and a.tensors.keys() == b.tensors.keys()
        and (a.avatar_id, a.family, a.rect)
        == (
            b.avatar_id,
            b.family,
            b.rect,
        )
    )


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    avatar = _avatar()
    write_bundle(avatar, tmp_path / avatar.avatar_id)
    return tmp_path / avatar.avatar_id


def test_a_bundle_comes_back_as_it_went(bundle: Path) -> None:
    for deep in (False, True):
        loaded = load_bundle(bundle, deep=deep)
        assert _same(loaded, _avatar()) and loaded.name == "Ada"
        assert not loaded.canvas_rgb.flags.writeable and not loaded.tensors["crop_rgb"].flags.writeable
    assert sorted(path.name for path in bundle.iterdir()) == [ARRAYS_FILE, MANIFEST_FILE, PREVIEW_FILE]
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]  # no leftovers


def test_the_arrays_are_an_ordinary_safetensors_file(bundle: Path) -> None:
    arrays = load_file(bundle / ARRAYS_FILE)
    assert {"canvas_rgb", "crop_to_canvas", "mask", "tensors.crop_rgb", "tensors.landmarks"} == arrays.keys()
    mapped = map_tensors(bundle / ARRAYS_FILE)
    assert all(np.array_equal(mapped[key], arrays[key]) for key in arrays)


def test_the_preview_is_a_small_jpeg_of_the_canvas(bundle: Path) -> None:
    with Image.open(bundle / PREVIEW_FILE) as preview:
        assert preview.format == "JPEG" and preview.size == (288, 512)


def test_the_id_is_the_content_and_not_the_name() -> None:
    avatar = _avatar()
    assert avatar.avatar_id == content_id(avatar) == content_id(replace(avatar, name="Eve", avatar_id=""))
    assert len(avatar.avatar_id) == 32 and int(avatar.avatar_id, 16) >= 0
    canvas = avatar.canvas_rgb.copy()
    canvas[0, 0, 0] ^= 1
    moved = replace(avatar, rect=FaceRect(avatar.rect.x + 2, avatar.rect.y, avatar.rect.w - 2, avatar.rect.h))
    mask = avatar.mask.copy()
    mask[100, 100] -= np.float32(1e-6)
    others = [replace(avatar, canvas_rgb=canvas), moved, replace(avatar, mask=mask), replace(avatar, family="other")]
    assert len({content_id(other) for other in [avatar, *others]}) == 5


def test_the_id_is_stable_over_versions_of_this_code() -> None:
    """A changed id would orphan every stored avatar: change it only together with the schema."""
    canvas = np.zeros((4, 6, 3), np.uint8)
    avatar = Avatar(
        "", "probe", "", canvas, FaceRect(0, 0, 2, 2), np.eye(2, 3, dtype=np.float32), np.zeros((2, 2), np.float32), {}
    )
    assert CONTROL_POINTS_VERSION == 1
    assert content_id(avatar) == "8aba93c5acdacbedae0e99828c34ea99"


def test_arrays_in_any_memory_layout_have_one_id() -> None:
    avatar = _avatar()
    flipped = np.asfortranarray(avatar.canvas_rgb)
    assert content_id(replace(avatar, canvas_rgb=flipped)) == avatar.avatar_id


def test_a_wrong_id_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="not that of the content"):
        write_bundle(replace(_avatar(), avatar_id=UNKNOWN), tmp_path / UNKNOWN)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"canvas_rgb": np.zeros((641, 360, 3), np.uint8)}, "canvas_rgb"),
        ({"canvas_rgb": np.zeros((640, 360, 4), np.uint8)}, "canvas_rgb"),
        ({"mask": np.zeros((512, 512), np.float64)}, "mask"),
        ({"mask": np.zeros((256, 256), np.float32)}, "mask"),
        ({"crop_to_canvas": np.eye(3, dtype=np.float32)}, "crop_to_canvas"),
        ({"tensors": {}}, "tensors.crop_rgb"),
        ({"rect": FaceRect(300, 0, 100, 100)}, "rect"),
    ],
)
def test_arrays_of_the_wrong_shape_are_refused(tmp_path: Path, change: dict[str, object], field: str) -> None:
    with pytest.raises(ShapeError) as caught:
        write_bundle(replace(_avatar(), **change), tmp_path / "x")  # type: ignore[arg-type]
    assert caught.value.field == field


def _edit_manifest(bundle: Path, **changes: object) -> None:
    path = bundle / MANIFEST_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", [MANIFEST_FILE, ARRAYS_FILE, PREVIEW_FILE])
@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "altered"])
def test_damage_is_found_and_the_file_named(bundle: Path, name: str, damage: str) -> None:
    path = bundle / name
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        _truncate(path)
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        _flip_last_byte(path)
    with pytest.raises(BundleError) as caught:
        load_bundle(bundle, deep=damage == "altered")
    assert Path(caught.value.path) == path and "register the avatar again" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).path == caught.value.path  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"schema_version": 0}, BundleSchemaError, "schema 0, this version reads 2"),
        ({"schema_version": 99, "new_field": 1}, BundleSchemaError, "schema 99"),
        ({"control_points_version": CONTROL_POINTS_VERSION + 1}, BundleSchemaError, "control points"),
        ({"surprise": 1}, BundleError, "surprise"),
        ({"width": 361}, BundleError, "width"),
        ({"width": 362}, BundleError, "canvas_rgb"),
        ({"rect": {"x": 1, "y": 0, "w": 2, "h": 2}}, BundleError, r"rect\.x"),
        ({"rect": {"x": 0, "y": 0, "w": 4000, "h": 2}}, BundleError, "rect"),
        ({"avatar_id": "../../etc/passwd"}, BundleError, "avatar_id"),
        ({"files": {}}, BundleError, "does not list"),
    ],
)
def test_manifests_of_other_versions_or_with_nonsense(
    bundle: Path, changes: dict[str, object], error: type[BundleError], words: str
) -> None:
    _edit_manifest(bundle, **changes)
    with pytest.raises(error, match=words) as caught:
        load_bundle(bundle)
    assert type(caught.value) is error


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema_version": {}}', "[" * 30_000, "9" * 70_000])
def test_manifests_that_are_no_manifest(bundle: Path, text: str) -> None:
    (bundle / MANIFEST_FILE).write_text(text)
    with pytest.raises(BundleError):
        read_manifest(bundle)


def _tensor_file(path: Path, header: object, body: bytes = bytes(64), length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + body)
    return path


@pytest.mark.parametrize(
    "header",
    [
        b"{not json",
        b"[1, 2]",
        b"[" * 5000,
        {"a": 3},
        {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0]}},
        {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 12]}},
        {"a": {"dtype": "F32", "shape": [400], "data_offsets": [0, 1600]}},
        {"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]}},
        {"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": [4.0], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": "4", "data_offsets": [0, 16]}},
        {"a": {"dtype": "O", "shape": [2], "data_offsets": [0, 16]}},
        {"a": {"shape": [2], "data_offsets": [0, 16]}},
    ],
)
def test_hostile_tensor_headers(tmp_path: Path, header: object) -> None:
    with pytest.raises(TensorFileError):
        map_tensors(_tensor_file(tmp_path / "x", header))


def test_hostile_tensor_lengths(tmp_path: Path) -> None:
    for length in (0, 1, 2**63, 500):
        with pytest.raises(TensorFileError):
            map_tensors(_tensor_file(tmp_path / "x", {}, length=length))
    (tmp_path / "x").write_bytes(b"\x01")
    with pytest.raises(TensorFileError):
        map_tensors(tmp_path / "x")


def test_every_element_type_maps(tmp_path: Path) -> None:
    arrays = {
        kind: np.arange(12).reshape(3, 4).astype(kind) for kind in ("bool", "u1", "i4", "i8", "f2", "f4", "f8")
    } | {"empty": np.zeros((0, 5), np.float32), "scalar": np.array(3.5, np.float32)}
    save_file(arrays, tmp_path / "x")
    mapped = map_tensors(tmp_path / "x")
    for name, array in arrays.items():
        assert mapped[name].dtype == array.dtype and np.array_equal(mapped[name], array)


def test_views_outlive_the_file(bundle: Path) -> None:
    avatar = load_bundle(bundle)
    for path in bundle.iterdir():
        path.unlink()
    assert np.array_equal(avatar.canvas_rgb, _avatar().canvas_rgb)


def test_a_load_maps_the_arrays_and_reads_none_of_them(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.stat().st_size) or real(path))
    avatar = load_bundle(bundle)
    assert sum(read) < 64 * 1024 < avatar.canvas_rgb.nbytes


def test_loading_needs_neither_cv2_nor_torch(bundle: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pipeline.avatars.store import AvatarStore\n"
        f"AvatarStore(Path({str(bundle.parent)!r})).get({bundle.name!r})\n"
        "sys.exit(', '.join({'cv2', 'torch', 'ai_edge_litert', 'ray', 'av'} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_renaming_changes_only_the_name(bundle: Path) -> None:
    rename_avatar(bundle, "Grace")
    assert load_bundle(bundle, deep=True).name == "Grace" and _same(load_bundle(bundle), _avatar())
    assert len(list(bundle.iterdir())) == 3


def test_store_round_trip(tmp_path: Path) -> None:
    store = AvatarStore(tmp_path / "deep" / "avatars")
    assert store.list() == []
    avatars = [_avatar(seed, name) for seed, name in enumerate(("Zoe", "Ada", ""))]
    for avatar in avatars:
        assert _same(store.put(avatar), avatar)
    assert [summary.name for summary in store.list()] == ["", "Ada", "Zoe"]
    first = store.list()[1]
    assert (first.avatar_id, first.family, first.width, first.height) == (avatars[1].avatar_id, "mini", 360, 640)
    assert store.preview(first.avatar_id)[:2] == b"\xff\xd8"
    store.delete(first.avatar_id)
    assert len(store.list()) == 2 and len(list((tmp_path / "deep/avatars").iterdir())) == 2
    for call in (store.get, store.delete, store.preview):
        with pytest.raises(AvatarNotFoundError):
            call(first.avatar_id)
    store.put(avatars[1])  # and it can come back
    assert _same(store.get(first.avatar_id), avatars[1])


def test_putting_twice_keeps_one_and_takes_the_newer_name(tmp_path: Path) -> None:
    store = AvatarStore(tmp_path)
    assert store.put(_avatar(name="")).name == ""
    assert store.put(_avatar(name="Ada"), rename=False).name == "Ada", "one without a name gets it"
    assert store.put(_avatar(name="")).name == "Ada"
    assert store.put(_avatar(name="Grace")).name == "Grace"
    assert store.put(_avatar(name="IMG_1"), rename=False).name == "Grace"
    assert [summary.name for summary in store.list()] == ["Grace"]


@pytest.mark.parametrize(
    "avatar_id",
    [
        "",
        "..",
        "../" + "0" * 29,
        "0" * 31,
        "0" * 33,
        "G" * 32,
        "ABCDEF" + "0" * 26,
        "0" * 31 + "/",
        "0" * 32 + "\n",
        "\x00" * 32,
    ],
)
def test_ids_are_never_paths(tmp_path: Path, avatar_id: str) -> None:
    store = AvatarStore(tmp_path)
    for call in (store.get, store.delete, store.preview):
        with pytest.raises(InvalidInputError) as caught:
            call(avatar_id)
        assert caught.value.field == "avatar_id" and not isinstance(caught.value, AvatarNotFoundError)


def test_unknown_ids_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(AvatarNotFoundError, match="no avatar 0000"):
        AvatarStore(tmp_path).get(UNKNOWN)


def test_the_cache_is_bounded_in_bytes_and_drops_the_oldest(tmp_path: Path) -> None:
    one = _avatar(0)
    size = one.canvas_rgb.nbytes + one.mask.nbytes + one.crop_to_canvas.nbytes
    size += sum(array.nbytes for array in one.tensors.values())
    store = AvatarStore(tmp_path, cache_bytes=2 * size)
    ids = [store.put(_avatar(seed)).avatar_id for seed in range(3)]
    assert store.bytes_cached == 2 * size
    kept, again = store.get(ids[2]), store.get(ids[2])
    assert kept is again
    first = store.get(ids[0])
    assert store.get(ids[2]) is kept and store.get(ids[0]) is first and store.bytes_cached == 2 * size


def test_a_bundle_deleted_by_another_process_is_not_served_from_memory(tmp_path: Path) -> None:
    ours, theirs = AvatarStore(tmp_path), AvatarStore(tmp_path)
    avatar_id = ours.put(_avatar()).avatar_id
    ours.get(avatar_id)
    theirs.delete(avatar_id)
    with pytest.raises(AvatarNotFoundError):
        ours.get(avatar_id)
    assert ours.bytes_cached == 0


def test_the_store_hashes_everything_before_first_use(tmp_path: Path) -> None:
    avatar_id = AvatarStore(tmp_path).put(_avatar()).avatar_id
    _flip_last_byte(tmp_path / avatar_id / ARRAYS_FILE)
    with pytest.raises(BundleError, match="altered"):
        AvatarStore(tmp_path).get(avatar_id)


def test_a_bundle_under_a_wrong_id_is_refused(tmp_path: Path) -> None:
    avatar_id = AvatarStore(tmp_path).put(_avatar()).avatar_id
    (tmp_path / avatar_id).rename(tmp_path / UNKNOWN)
    with pytest.raises(BundleError, match=avatar_id):
        AvatarStore(tmp_path).get(UNKNOWN)


def test_lists_skip_what_is_no_readable_bundle(tmp_path: Path) -> None:
    store = AvatarStore(tmp_path)
    good = store.put(_avatar(0)).avatar_id
    bad = store.put(_avatar(1)).avatar_id
    (tmp_path / bad / MANIFEST_FILE).write_text("{")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".new-abc").mkdir()
    assert [summary.avatar_id for summary in store.list()] == [good]


def test_leftovers_of_dead_processes_are_swept(tmp_path: Path) -> None:
    now = time.time()
    for name, age in ((".new-old", STALE_AFTER_S + 60), (".old-old", STALE_AFTER_S + 60), (".new-young", 5.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "arrays.safetensors").write_bytes(b"x")
        os.utime(tmp_path / name, (now - age, now - age))
    store = AvatarStore(tmp_path, wall_clock=lambda: now)
    avatar_id = store.put(_avatar()).avatar_id
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new-young", avatar_id]


def test_concurrent_puts_and_gets_of_one_avatar(tmp_path: Path) -> None:
    avatar = _avatar()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            store = AvatarStore(tmp_path)
            for _ in range(3):
                assert _same(store.put(avatar), avatar)
                assert len(store.list()) == 1
        except BaseException as error:  # noqa: BLE001 - carried to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and [path.name for path in tmp_path.iterdir()] == [avatar.avatar_id]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BundleError, match="No space left"):
        AvatarStore(tmp_path).put(_avatar())
    assert not list(tmp_path.iterdir())


def test_a_store_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BundleError, match="cannot be made.*LIVEANCHOR_HOME"):
        AvatarStore(tmp_path / "file").put(_avatar())


def test_the_folder_of_the_store(tmp_path: Path) -> None:
    assert avatars_dir(tmp_path) == tmp_path / "avatars"
