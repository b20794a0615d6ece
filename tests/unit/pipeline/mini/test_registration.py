"""Registration of portraits and videos with the real face networks and the drawn presenter."""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from PIL import Image

from engines.face.both_ways import judge_faces
from engines.face.mesh import FaceMesh
from kernels.arrays import U8
from pipeline.avatars.bundle import check_avatar, content_id
from pipeline.avatars.face_crop import CROP_OVER_FACE, CropSquare, crop_square, cut_crop, fit_canvas, soft_mask
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.video_still import best_stills
from pipeline.mini.registration import make_avatar, register_file, register_portrait, register_video
from pipeline.presenter.template import landmarks_on
from pipeline.types import Avatar, FaceRect
from tests.support.faces import face_mesh, paste_presenter, presenter, studio


@pytest.fixture(scope="module")
def mesh() -> FaceMesh:
    return face_mesh()


@functools.cache
def _registered() -> Avatar:
    return register_portrait(presenter().rgb, face_mesh(), "Ada")


def _png(rgb: U8, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(rgb).save(stream, "PNG", **options)
    return stream.getvalue()


def _composite(avatar: Avatar) -> U8:
    """The crop put back onto the canvas through the affine and the mask, as the renderer's tail does."""
    height, width = avatar.canvas_rgb.shape[:2]
    crop = avatar.tensors["crop_rgb"].astype(np.float32)
    back = cv2.warpAffine(crop, avatar.crop_to_canvas, (width, height), flags=cv2.INTER_LINEAR)
    mask = cv2.warpAffine(avatar.mask, avatar.crop_to_canvas, (width, height))[..., None]
    return np.rint(back * mask + avatar.canvas_rgb * (1 - mask)).astype(np.uint8)


def test_the_canvas_is_the_picture_itself(mesh: FaceMesh) -> None:
    avatar = _registered()
    assert np.array_equal(avatar.canvas_rgb, presenter().rgb)
    check_avatar(avatar)
    assert avatar.family == "mini" and avatar.name == "Ada" and avatar.avatar_id == content_id(avatar)


def test_crop_landmarks_and_affine_agree(mesh: FaceMesh) -> None:
    avatar = _registered()
    landmarks = avatar.tensors["landmarks"].astype(np.float64)
    on_canvas = landmarks[:, :2] @ avatar.crop_to_canvas[:, :2].T + avatar.crop_to_canvas[:, 2]
    expected = presenter().landmarks
    assert np.linalg.norm(on_canvas - expected[:, :2], axis=1).mean() < 0.03 * np.ptp(expected[:, 0])
    depth = landmarks[:, 2] * avatar.crop_to_canvas[0, 0]  # z scales like x
    assert np.ptp(depth) == pytest.approx(np.ptp(expected[:, 2]), rel=0.35)
    inside = (landmarks[:, :2] > 40) & (landmarks[:, :2] < 472)
    assert inside.all()
    height = np.linalg.norm(landmarks[152, :2] - landmarks[10, :2])
    assert CROP_OVER_FACE - 0.1 < 512 / height < CROP_OVER_FACE + 0.4


def test_putting_the_crop_back_changes_next_to_nothing(mesh: FaceMesh) -> None:
    avatar = _registered()
    difference = np.abs(_composite(avatar).astype(int) - avatar.canvas_rgb)
    assert difference.mean() < 0.2 and difference.max() <= 30  # hard edges soften a little


def test_the_rectangle_is_the_crop_on_the_canvas(mesh: FaceMesh) -> None:
    avatar = _registered()
    rect = avatar.rect
    assert all(value % 2 == 0 for value in (rect.x, rect.y, rect.w, rect.h))
    changed = np.argwhere((_composite(_blackened(avatar)) != avatar.canvas_rgb).any(axis=2))
    low, high = changed.min(axis=0), changed.max(axis=0)
    assert low[0] >= rect.y and low[1] >= rect.x and high[0] < rect.y + rect.h and high[1] < rect.x + rect.w


def _blackened(avatar: Avatar) -> Avatar:
    tensors = dict(avatar.tensors) | {"crop_rgb": np.zeros((512, 512, 3), np.uint8)}
    return Avatar(**{**vars(avatar), "tensors": tensors})


def test_the_mask_is_soft_with_a_zero_border() -> None:
    mask = soft_mask()
    assert mask.dtype == np.float32 and mask.shape == (512, 512)
    assert max(mask[0].max(), mask[-1].max(), mask[:, 0].max(), mask[:, -1].max()) == 0.0
    assert mask[60:-60, 60:-60].min() == 1.0 and np.abs(np.diff(mask, axis=0)).max() < 0.05
    assert np.array_equal(mask, mask.T) and np.array_equal(mask, mask[::-1])


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (640, 360, (640, 360)),
        (641, 361, (640, 360)),
        (1920, 1080, (1920, 1080)),
        (3840, 2160, (1920, 1080)),
        (2160, 3840, (1080, 1920)),
        (1432, 1432, (1080, 1080)),
        (1081, 1921, (1080, 1920)),
        (200, 6000, (64, 1920)),
        (3, 5, (2, 4)),
    ],
)
def test_canvas_sizes(height: int, width: int, expected: tuple[int, int]) -> None:
    canvas = fit_canvas(np.zeros((height, width, 3), np.uint8))
    assert canvas.shape[:2] == expected and canvas.flags.c_contiguous


def test_crop_square_over_the_edge_repeats_the_edge() -> None:
    canvas = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    square = CropSquare(-40, 60, 512)
    crop = cut_crop(canvas, square)
    assert square.rect(300, 200) == FaceRect(0, 60, 300, 140)
    assert np.array_equal(crop[:140, 40:340], canvas[60:])  # 1:1, so exact
    assert np.array_equal(crop[:140, :40], np.repeat(canvas[60:, :1], 40, axis=1))
    assert np.array_equal(crop[140:, 40:340], np.repeat(canvas[-1:], 372, axis=0))


@pytest.mark.parametrize("side", [200, 512, 900])
def test_affine_and_points_are_inverse(side: int) -> None:
    square = CropSquare(30, -14, side)
    points = np.random.default_rng(1).uniform(0, 900, (50, 3)).astype(np.float32)
    crop = square.to_crop(points)
    back = crop[:, :2] @ square.to_canvas()[:, :2].T + square.to_canvas()[:, 2]
    assert np.abs(back - points[:, :2]).max() < 1e-3
    assert np.allclose(crop[:, 2] * side / 512, points[:, 2], atol=1e-3)
    corner = np.array([[29.5, -14.5, 0]], dtype=np.float32)  # the square's own corner, in pixel centres
    assert np.allclose(square.to_crop(corner)[0, :2], -0.5, atol=1e-4)


def test_crop_resampling_keeps_positions() -> None:
    """A dot on the canvas lands in the crop where `to_crop` says, shrunk or enlarged."""
    for side, x, y in ((1024, 700, 333), (256, 100, 90)):
        canvas = np.zeros((1200, 1200, 3), np.uint8)
        canvas[y - 3 : y + 4, x - 3 : x + 4] = 255
        square = CropSquare(20, 10, side)
        weights = cut_crop(canvas, square)[..., 0].astype(np.float64)
        rows, columns = np.mgrid[:512, :512]
        centre = [(columns * weights).sum() / weights.sum(), (rows * weights).sum() / weights.sum()]
        assert np.allclose(centre, square.to_crop(np.array([[x, y, 0]], np.float32))[0, :2], atol=0.1)


def test_known_landmarks_need_no_network() -> None:
    drawing = presenter()
    avatar = make_avatar(drawing.rgb, drawing.landmarks, "drawn")
    square = crop_square(drawing.landmarks)
    assert avatar.rect == square.rect(360, 640)
    assert np.allclose(avatar.tensors["landmarks"], square.to_crop(drawing.landmarks))


def test_files_and_pixels_give_the_same_avatar(mesh: FaceMesh, tmp_path: Path) -> None:
    from_file = register_portrait(_png(presenter().rgb), mesh, "Eve")
    assert from_file.avatar_id == _registered().avatar_id and from_file.name == "Eve"
    path = tmp_path / "misnamed.mp4"
    path.write_bytes(_png(presenter().rgb))
    assert register_file(path, mesh).avatar_id == from_file.avatar_id


def test_a_picture_rotated_by_exif_is_upright(mesh: FaceMesh) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = np.ascontiguousarray(np.rot90(presenter().rgb))
    assert register_portrait(_png(stored, exif=exif.tobytes()), mesh).avatar_id == _registered().avatar_id


def test_a_large_landscape_keeps_the_face_in_its_place(mesh: FaceMesh) -> None:
    rgb = paste_presenter(studio(2560, 1440), 1700, 500, 1.3)
    avatar = register_portrait(rgb, mesh)
    assert avatar.canvas_rgb.shape == (1080, 1920, 3)
    middle = (avatar.rect.x + avatar.rect.w / 2, avatar.rect.y + avatar.rect.h / 2)
    expected = (presenter().landmarks[:, :2].mean(axis=0) * 1.3 + (1700, 500)) * 0.75
    assert np.hypot(*(np.array(middle) - expected)) < 0.15 * avatar.rect.h


def test_a_face_at_the_edge_has_a_clipped_rectangle(mesh: FaceMesh) -> None:
    avatar = register_portrait(paste_presenter(studio(900, 640), -70, -110, 1.0), mesh)
    assert avatar.rect.x == 0 and avatar.rect.y == 0 and avatar.rect.w < 360
    assert np.abs(_composite(avatar).astype(int) - avatar.canvas_rgb).mean() < 0.2


def test_a_face_that_fills_the_picture(mesh: FaceMesh) -> None:
    avatar = register_portrait(paste_presenter(studio(420, 500), -330, -440, 3.0), mesh)
    assert avatar.rect == FaceRect(0, 0, 420, 500)


def test_a_poster_in_the_background_is_tolerated(mesh: FaceMesh) -> None:
    rgb = paste_presenter(paste_presenter(studio(1280, 720), 60, 20, 1.05), 900, 60, 0.36)
    avatar = register_portrait(rgb, mesh)
    assert avatar.rect.x < 400


def _rotated(turns: int) -> Callable[[], U8]:
    return lambda: np.ascontiguousarray(np.rot90(presenter().rgb[:420], turns))


REFUSED: dict[str, tuple[Callable[[], U8], str]] = {
    "empty_studio": (lambda: studio(800, 600), "portrait_no_face"),
    "noise": (lambda: np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8), "portrait_no_face"),
    "white": (lambda: np.full((400, 400, 3), 255, np.uint8), "portrait_no_face"),
    "two_faces": (
        lambda: paste_presenter(paste_presenter(studio(1280, 720), 60, 60, 1.0), 840, 100, 0.8),
        "portrait_two_faces",
    ),
    "tiny_face": (lambda: paste_presenter(studio(700, 500), 300, 200, 0.25), "portrait_too_small"),
    "on_its_left_side": (_rotated(1), "portrait_turned_away"),
    "on_its_right_side": (_rotated(3), "portrait_turned_away"),
    "upside_down": (_rotated(2), "portrait_turned_away"),
    "upside_down_whole": (lambda: np.ascontiguousarray(np.rot90(presenter().rgb, 2)), "portrait_turned_away"),
    "upside_down_small": (
        lambda: np.ascontiguousarray(np.rot90(paste_presenter(studio(900, 700), 300, 60, 0.7), 2)),
        "portrait_turned_away",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_pictures_without_one_good_face_are_refused(mesh: FaceMesh, name: str) -> None:
    make, code = REFUSED[name]
    with pytest.raises(PortraitError) as caught:
        register_portrait(make(), mesh)
    assert caught.value.code == code and caught.value.field == "portrait"


@pytest.mark.parametrize(("turns", "words"), [(2, "upside down"), (1, "rotat"), (3, "rotat")])
def test_a_rotated_picture_is_told_how(mesh: FaceMesh, turns: int, words: str) -> None:
    with pytest.raises(PortraitError, match=words):
        register_portrait(_rotated(turns)(), mesh)


def _cut(edge: str, share: float) -> U8:
    """The presenter less a share of the face at one edge of the picture."""
    drawing = presenter()
    (x0, y0), (x1, y1) = drawing.landmarks[:, :2].min(axis=0), drawing.landmarks[:, :2].max(axis=0)
    x, y = share * (x1 - x0), share * (y1 - y0)
    parts = {
        "left": np.s_[:, int(x0 + x) :],
        "right": np.s_[:, : int(x1 - x)],
        "top": np.s_[int(y0 + y) :],
        "bottom": np.s_[: int(y1 - y)],
    }
    return np.ascontiguousarray(drawing.rgb[parts[edge]])


@pytest.mark.parametrize(
    ("edge", "share"),
    [
        ("left", 0.5),
        ("right", 0.5),
        ("left", 0.4),
        ("right", 0.4),
        ("top", 0.4),
        ("top", 0.5),
        ("bottom", 0.4),
        ("bottom", 0.5),
    ],
)
def test_half_a_face_is_cut_off_and_not_upside_down(mesh: FaceMesh, edge: str, share: float) -> None:
    with pytest.raises(PortraitError) as caught:
        register_portrait(_cut(edge, share), mesh)
    assert caught.value.code == "portrait_cut_off", caught.value


def _sheared(slant: float) -> U8:
    """The presenter slanted and narrowed on one side: as unlike its mirror image as a turned head."""
    corners = np.array([[0, 0], [360, 0], [360, 640], [0, 640]], np.float32)
    moved = corners + np.array([[0, 0], [-slant, slant], [-slant, -slant], [0, 0]], np.float32)
    warp = cv2.getPerspectiveTransform(corners, moved)
    return cv2.warpPerspective(presenter().rgb, warp, (360, 640), borderMode=cv2.BORDER_REPLICATE).astype(np.uint8)


@pytest.mark.parametrize("make", [lambda: presenter().rgb, lambda: _sheared(90.0), lambda: _cut("left", 0.3)])
def test_a_picture_and_its_mirror_image_are_judged_the_same(mesh: FaceMesh, make: Callable[[], U8]) -> None:
    rgb = make()
    (here, one), (there, other) = judge_faces(mesh, rgb), judge_faces(mesh, np.ascontiguousarray(rgb[:, ::-1]))
    assert len(here) == len(there) >= 1 and one == other
    for a, b in zip(here, there, strict=True):
        assert (a.score, a.is_steady, a.shape_faults, a.size_px) == (b.score, b.is_steady, b.shape_faults, b.size_px)
        assert (a.eye_openness, a.mouth_aperture) == (b.eye_openness, b.mouth_aperture)
        assert (a.pose.yaw, a.pose.pitch, a.pose.roll) == (-b.pose.yaw, b.pose.pitch, -b.pose.roll)
        assert a.outside_share(*rgb.shape[1::-1]) == b.outside_share(*rgb.shape[1::-1])


def test_a_missing_file_is_typed(mesh: FaceMesh, tmp_path: Path) -> None:
    with pytest.raises(PortraitError) as caught:
        register_file(tmp_path / "nowhere.jpg", mesh)
    assert caught.value.code == "portrait_unreadable" and str(tmp_path) not in str(caught.value)
    with pytest.raises(PortraitError):
        register_file(tmp_path, mesh)


def _video(frames: Sequence[U8], fps: int = 10, container: str = "mp4") -> bytes:
    stream = io.BytesIO()
    with av.open(stream, "w", format=container) as output:
        track = output.add_stream("libx264", rate=fps, options={"crf": "12", "preset": "ultrafast"})
        track.height, track.width = frames[0].shape[:2]
        track.pix_fmt = "yuv420p"
        for frame in frames:
            for packet in track.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")):
                output.mux(packet)
        for packet in track.encode():
            output.mux(packet)
    return stream.getvalue()


def _clip() -> list[U8]:
    """Half a second each: nobody, a blurred presenter, a sharp one, a tilted one."""
    rgb = presenter().rgb
    turn = cv2.getRotationMatrix2D((180, 250), 18, 1.0)
    tilted = cv2.warpAffine(rgb, turn, (360, 640), borderMode=cv2.BORDER_REPLICATE).astype(np.uint8)
    blurred = cv2.GaussianBlur(rgb, (0, 0), 5).astype(np.uint8)
    return [studio(360, 640)] * 5 + [blurred] * 5 + [rgb] * 5 + [tilted] * 5


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_the_best_frame_of_a_video_becomes_the_avatar(mesh: FaceMesh, tmp_path: Path, container: str) -> None:
    data = _video(_clip(), container=container)
    stills = best_stills(data, mesh)
    assert 0.95 <= stills[0].time_s <= 1.45
    assert [still.score for still in stills] == sorted((still.score for still in stills), reverse=True)
    avatar = register_video(data, mesh, "clip")
    assert avatar.canvas_rgb.shape == (640, 360, 3)
    assert np.abs(avatar.canvas_rgb.astype(int) - presenter().rgb).mean() < 4
    path = tmp_path / "clip.jpg"
    path.write_bytes(data)
    assert register_file(path, mesh).avatar_id == avatar.avatar_id


def test_the_display_rotation_of_phone_videos(mesh: FaceMesh) -> None:
    """The frames lie on their side and the track header says "a quarter turn clockwise", as phones write it."""
    data = bytearray(_video([np.ascontiguousarray(np.rot90(presenter().rgb))] * 4))
    at = data.index(b"tkhd") + 4 + 40  # version 0: the matrix lies 40 bytes into the box
    one = 1 << 16
    assert struct.unpack(">9i", data[at : at + 36]) == (one, 0, 0, 0, one, 0, 0, 0, 1 << 30)
    data[at : at + 36] = struct.pack(">9i", 0, one, 0, -one, 0, 0, 0, 0, 1 << 30)
    still = best_stills(bytes(data), mesh)[0]
    assert still.rgb.shape == (640, 360, 3)
    assert np.abs(still.rgb.astype(int) - presenter().rgb).mean() < 4


def _silent_mp4() -> bytes:
    stream = io.BytesIO()
    with av.open(stream, "w", format="mp4") as output:
        track = output.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16000
        for packet in (*track.encode(frame), *track.encode()):
            output.mux(packet)
    return stream.getvalue()


def test_videos_that_cannot_be_used(mesh: FaceMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    good = _video(_clip())
    cases: list[tuple[bytes, str]] = [
        (_video([studio(320, 240)] * 6), "portrait_no_face"),
        (good[: len(good) // 3], "portrait_unreadable"),
        (b"\x00\x00\x00\x18ftypisom" + bytes(200), "portrait_unreadable"),
        (b"#EXTM3U\n#EXTINF:1,\nhttp://localhost:1/x.ts\n", "portrait_unsupported"),
        (b"\x1aE\xdf\xa3" + bytes(200), "portrait_unreadable"),
        (_silent_mp4(), "portrait_unreadable"),
        (_video([studio(32, 32)] * 61, fps=1), "portrait_video_too_long"),
    ]
    for data, code in cases:
        with pytest.raises(PortraitError) as caught:
            register_video(data, mesh)
        assert caught.value.code == code, caught.value
    monkeypatch.setattr("pipeline.avatars.video_still.MAX_VIDEO_BYTES", len(good) - 1)
    with pytest.raises(PortraitError) as caught:
        register_video(good, mesh)
    assert caught.value.code == "portrait_too_large"
    monkeypatch.setattr("pipeline.avatars.video_still.MAX_VIDEO_BYTES", len(good))
    monkeypatch.setattr("pipeline.avatars.video_frames.MAX_FRAME_PIXELS", 360 * 640 - 1)
    with pytest.raises(PortraitError) as caught:
        register_video(good, mesh)
    assert caught.value.code == "portrait_too_large"


def test_a_video_of_two_people_says_so(mesh: FaceMesh) -> None:
    both = paste_presenter(paste_presenter(studio(1280, 720), 60, 60, 1.0), 840, 100, 0.8)
    with pytest.raises(PortraitError) as caught:
        register_video(_video([both] * 4), mesh)
    assert caught.value.code == "portrait_two_faces"


def test_closed_eyes_are_refused(mesh: FaceMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.face.both_ways.eye_openness", lambda points: 0.05)
    with pytest.raises(PortraitError) as caught:
        register_portrait(presenter().rgb, mesh)
    assert caught.value.code == "portrait_eyes_closed"


@pytest.mark.parametrize(("aperture", "code"), [(0.14, ""), (0.35, "portrait_mouth_open")])
def test_a_mouth_that_stays_open_in_silence_is_refused(
    mesh: FaceMesh, monkeypatch: pytest.MonkeyPatch, aperture: float, code: str
) -> None:
    """What counts is the drawn silence, not the source."""
    monkeypatch.setattr("engines.face.both_ways.mouth_aperture", lambda points: 0.4)
    monkeypatch.setattr("pipeline.mini.registration.mouth_aperture", lambda points: aperture)
    if not code:
        assert register_portrait(presenter().rgb, mesh).avatar_id == _registered().avatar_id
        return
    with pytest.raises(PortraitError) as caught:
        register_portrait(presenter().rgb, mesh)
    assert caught.value.code == code


def _gaping(gap: float) -> U8:
    """The presenter with lower lip and chin pulled down by `gap` pixels, darkness between the lips (its mouth is 60 px wide)."""
    rgb, points = presenter().rgb, presenter().landmarks
    middle, half = (points[13, :2] + points[14, :2]) / 2, (points[291, 0] - points[61, 0]) / 2
    rows, columns = np.mgrid[: rgb.shape[0], : rgb.shape[1]].astype(np.float32)
    opening = (gap * np.sqrt(np.clip(1 - ((columns - middle[0]) / half) ** 2, 0, 1))).astype(np.float32)
    reach = 1.6 * (points[152, 1] - middle[1]) + gap
    below = middle[1] + reach * np.clip((rows - middle[1] - opening) / (reach - opening), 0, 1)
    moved = np.where((rows > middle[1]) & (rows < middle[1] + reach), below, rows).astype(np.float32)
    result = cv2.remap(rgb, columns, moved, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE).astype(np.uint8)
    result[(rows > middle[1]) & (rows < middle[1] + opening)] = (46, 15, 16)
    return result


@pytest.mark.parametrize("gap", [30.0, 40.0])
def test_a_gaping_mouth_is_refused(mesh: FaceMesh, gap: float) -> None:
    with pytest.raises(PortraitError) as caught:
        register_portrait(_gaping(gap), mesh)
    assert caught.value.code == "portrait_mouth_open"


def test_slightly_parted_lips_are_drawn_closed(mesh: FaceMesh) -> None:
    assert register_portrait(_gaping(10.0), mesh).tensors["landmarks"].shape == (468, 3)


def test_template_landmarks_have_the_documented_shape() -> None:
    assert landmarks_on(360).shape == (468, 3)
