"""The gallery: what lies in the package, that our own networks see the same faces in it, and how its avatars come into a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from engines.weights.home import HOME_ENV
from kernels.errors import InvalidInputError
from pipeline.avatars.store import AvatarStore
from pipeline.families import find_family
from pipeline.gallery.pictures import FOLDER, NAMES, TRANSPARENT, picture_file, read_picture, with_alpha
from pipeline.mini import presenter
from pipeline.mini.avatar_tensors import PERSON
from pipeline.mini.presenter import gallery_avatar, make_gallery
from pipeline.mini.registration import register_portrait
from serve_app.cli.app import app
from tests.support.faces import face_mesh
from training.gallery.__main__ import MAX_BYTES, QUALITY
from training.gallery.people import MAKERS
from training.gallery.shape import Shape
from training.gallery.sitter import landmarks, paint


def test_the_files_are_small_and_there_are_no_others() -> None:
    files = [picture_file(name) for name in NAMES]
    assert max(path.stat().st_size for path in files) <= MAX_BYTES
    assert sorted(FOLDER.iterdir()) == sorted([*files, FOLDER / "landmarks.npy"])
    assert tuple(MAKERS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_our_own_networks_find_the_face_where_it_is_drawn(name: str) -> None:
    picture = read_picture(name)
    assert picture.rgb.shape == (1280, 720, 3) and picture.person.shape == (1280, 720)
    made = register_portrait(picture.rgb, face_mesh())  # raises where anything is wrong with it
    square = made.crop_to_canvas.astype(np.float64)
    found = np.asarray(made.tensors["landmarks"], np.float64)[:, :2] @ square[:, :2].T + square[:, 2]
    width = np.linalg.norm(picture.landmarks[454, :2] - picture.landmarks[234, :2])
    error = np.linalg.norm(found - picture.landmarks[:, :2], axis=1) / width
    assert error.mean() <= 0.03 and np.percentile(error, 95) <= 0.06
    face = np.round(picture.landmarks[[1, 10, 152, 33, 263, 61, 291], :2]).astype(int)
    assert picture.person[face[:, 1], face[:, 0]].min() > 250, "the outline holds the face"
    assert picture.person[:100].max() == 0 and picture.person[:, 0][:700].max() == 0, "and not the room"


def test_the_landmarks_are_those_of_the_drawing() -> None:
    for name in NAMES:
        assert np.allclose(landmarks(MAKERS[name]()), read_picture(name).landmarks, atol=1e-3)


@pytest.mark.nightly("six drawings of some seconds each")
@pytest.mark.parametrize("name", NAMES)
def test_the_command_draws_what_is_committed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "again.webp"
    Image.fromarray(paint(MAKERS[name]()).rgba).save(path, "WEBP", quality=QUALITY, method=6, exact=True)
    committed, again = (np.asarray(Image.open(one).convert("RGBA"), np.float64) for one in (picture_file(name), path))
    assert 10 * np.log10(255**2 / max(((committed - again) ** 2).mean(), 1e-9)) > 40, "run python -m training.gallery"


def test_a_displaced_picture_fits_its_displaced_landmarks() -> None:
    shape = Shape(jaw=0.1, nose=0.3, lips=0.3, eyes=0.1, length=0.05, neck=0.2)
    at = np.array([[540.0, 840.0, 0.0], [630.0, 615.0, 0.0], [700.0, 860.0, 0.0]], np.float32)
    board = np.zeros((1920, 1080, 1), np.float32)
    yy, xx = np.mgrid[0:1920, 0:1080]
    for x, y, _ in at:
        board[..., 0] += np.exp(-((xx - x) ** 2 + (yy - y) ** 2) / 18.0)
    moved = shape.apply(board)
    moved = moved.reshape(1920, 1080)
    for x, y, _ in shape.points(at):
        part = moved[round(y) - 9 : round(y) + 10, round(x) - 9 : round(x) + 10]
        peak = np.argwhere(part == part.max())[0] - 9
        assert np.abs(peak).max() <= 1
    assert np.abs(shape.points(at) - at).max() > 5


def test_a_store_gets_each_presenter_once_and_again_where_it_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(presenter, "read_picture", lambda name: made.append(name) or read_picture(name))
    store = AvatarStore(tmp_path / "avatars")
    find_family("mini").make_gallery(store)
    listed = store.list()
    assert [one.name for one in listed] == sorted(NAMES) and made == list(NAMES)
    assert PERSON in store.get(listed[0].avatar_id).tensors, "hair and shoulders move, too"
    make_gallery(AvatarStore(tmp_path / "avatars"))
    assert made == list(NAMES)
    store.delete(listed[0].avatar_id)
    make_gallery(store)
    assert made[len(NAMES) :] == [listed[0].name] and store.list() == listed
    with pytest.raises(InvalidInputError) as caught:
        gallery_avatar(store, "Nobody")
    assert caught.value.field == "name"


def test_a_store_that_cannot_be_written_keeps_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "avatars").write_text("a file")
    make_gallery(AvatarStore(tmp_path / "avatars"))
    assert (tmp_path / "avatars").read_text() == "a file"


def test_only_a_picture_of_the_gallery_gets_its_transparency_back() -> None:
    (name,) = TRANSPARENT
    picture = read_picture(name)
    seen = with_alpha(name, picture.rgb)
    assert seen.shape == (1280, 720, 4) and np.array_equal(seen[..., 3], picture.person)
    share = picture.person[..., None] / 255.0
    assert np.abs(seen[..., :3] * share + (1 - share) * 186 - picture.rgb).mean() < 1.0
    assert with_alpha(name, picture.rgb // 2).shape == (1280, 720, 3), "another presenter of that name"
    assert with_alpha(NAMES[0], read_picture(NAMES[0]).rgb).shape == (1280, 720, 3)


def test_the_command_line_lists_them_and_writes_their_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_ENV, str(tmp_path / "home"))
    listed = CliRunner().invoke(app, ["avatar", "list"]).output
    assert all(name in listed for name in NAMES)
    for typed, out, mode in (("mei", "mei.jpg", "RGB"), ("INGRID", "ingrid.png", "RGBA")):
        done = CliRunner().invoke(app, ["avatar", "picture", typed, "--out", str(tmp_path / out)])
        assert done.exit_code == 0, done.output
        with Image.open(tmp_path / out) as image:
            assert (image.size, image.mode) == ((720, 1280), mode)
