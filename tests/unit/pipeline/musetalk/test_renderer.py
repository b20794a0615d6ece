"""MuseTalk avatars and pictures, with narrow networks: what is painted, what is not, and that indices never shift."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from engines.runtimes.protocol import Runtime
from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.bundle import check_avatar, load_bundle
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.stale import StaleAvatarError
from pipeline.avatars.store import AvatarStore
from pipeline.avatars.tensor_file import held_bytes
from pipeline.live.idle_loop import LoopPictures
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.musetalk.blend import blend
from pipeline.musetalk.blend_mask import blend_mask, talking_region
from pipeline.musetalk.face_box import crop_around
from pipeline.musetalk.face_labels import MeshLabels
from pipeline.musetalk.face_rows import ROW_WIDTH, pack_rows, read_rows, silent_rows
from pipeline.musetalk.masters import recoloured, to_rgb
from pipeline.musetalk.own_pictures import MuseTalkOwnPictures
from pipeline.musetalk.registration import cut, make_avatar, register_clip, register_picture
from pipeline.musetalk.renderer import MuseTalkEngines, MuseTalkRenderer
from pipeline.musetalk.tail import MuseTalkTail
from pipeline.session.canvas import paste
from pipeline.session.overlaid import OverlaidBatch, PaintedParts
from pipeline.session.overlap import DrawOrder, Span
from pipeline.session.tail import Placed
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, MotionChunk, Nv12Canvas
from tests.support.faces import face_mesh, presenter
from tests.support.media_samples import video_of
from tests.support.musetalk import Stamp, clip_avatar, drawn, narrow_folder, photo_avatar, source_models
from tests.support.rife import MeanInterpolator


def renderer_of(avatar: Avatar, painter: Runtime | None = None, batch: int = 4) -> MuseTalkRenderer:
    version = unpack(avatar).version
    return MuseTalkRenderer(lambda _: avatar, MuseTalkEngines(painter or Stamp(), version, batch))


def spoken(count: int, share: float = 1.0, seed: int = 0) -> F32:
    windows = np.random.default_rng(seed).standard_normal((count, ROW_WIDTH - 2)).astype(np.float32) * 0.1
    return pack_rows(np.full(count, share, np.float32), windows)


def inside(avatar: Avatar, canvas: U8) -> tuple[U8, U8]:
    """What a picture shows in the avatar's rectangle, in NV12."""
    rect = avatar.rect
    return rgb_to_nv12(np.ascontiguousarray(canvas[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]))


def ask(avatar: Avatar, rows: F32, first: int = 0, fps: float = 25, colour: str = "bt709") -> RenderRequest:
    return RenderRequest(avatar.avatar_id, MotionChunk(rows, first), None, fps, colour)


def test_a_bundle_is_read_again_as_it_was_written_and_without_a_copy(tmp_path: Path) -> None:
    avatar = clip_avatar()
    store = AvatarStore(tmp_path)
    stored = store.put(avatar)
    assert stored.avatar_id == avatar.avatar_id and stored.family == "musetalk"
    mapped = unpack(load_bundle(tmp_path / avatar.avatar_id, deep=True))
    for name, array in unpack(avatar).pack().items():
        np.testing.assert_array_equal(mapped.pack()[name], array)
    assert mapped.y_planes is not None and not mapped.y_planes.flags.owndata and not mapped.y_planes.flags.writeable
    own = MuseTalkOwnPictures(avatar, mapped, "bt709")
    assert [held_bytes(plane) for plane in own.planes(1)] == [0, 0] and own.size_bytes == 0
    assert held_bytes(mapped.y_planes.copy()[1:]) == mapped.y_planes[1:].nbytes > 0


def test_a_clip_s_idle_loop_holds_no_pictures_of_its_own(tmp_path: Path) -> None:
    stored = AvatarStore(tmp_path).put(clip_avatar())
    batch = renderer_of(load_bundle(tmp_path / stored.avatar_id)).render(ask(stored, silent_rows(5)))
    pictures = LoopPictures(tuple(batch.kept().frame(i) for i in range(5)), ())
    assert pictures.size_bytes == 0
    spoken_one = renderer_of(load_bundle(tmp_path / stored.avatar_id)).render(ask(stored, spoken(1))).frame(0)
    assert spoken_one.over is not None
    held = spoken_one.over.y_plane.nbytes + spoken_one.over.uv_plane.nbytes
    assert LoopPictures((spoken_one,), ()).size_bytes == held > 0


def test_the_same_clip_is_the_same_avatar() -> None:
    assert clip_avatar().avatar_id == clip_avatar.__wrapped__(5).avatar_id != clip_avatar(4).avatar_id


def test_a_bundle_whose_arrays_do_not_fit_is_refused() -> None:
    avatar = clip_avatar()
    for name, wrong in {
        "latents": np.zeros((5, 4, 32, 32), np.float16),
        "corners": np.full((5, 2), 5000, np.int32),
        "boxes": np.zeros((5, 4), np.int32),
        "uv_planes": np.zeros((5, 2, 2), np.uint8),
        "faces": np.zeros(5, np.uint8),
    }.items():
        with pytest.raises(ShapeError, match=f"tensors.{name}"):
            check_avatar(replace(avatar, tensors={**avatar.tensors, name: wrong}))
    with pytest.raises(ShapeError, match="tensors.masks"):
        check_avatar(replace(avatar, tensors={k: v for k, v in avatar.tensors.items() if k != "masks"}))


def test_the_masters_are_the_clip_in_nv12_frame_by_frame() -> None:
    avatar = clip_avatar()
    tensors = unpack(avatar)
    assert tensors.y_planes is not None and tensors.uv_planes is not None
    for i in range(5):
        y_plane, uv_plane = inside(avatar, drawn(2 * i)[0])
        np.testing.assert_array_equal(tensors.y_planes[i], y_plane)
        np.testing.assert_array_equal(tensors.uv_planes[i], uv_plane)
    widths = {tensors.box(i).width for i in range(5)}
    assert len(widths) == 1 and tensors.box(4).left - tensors.box(0).left in range(4, 9)


def test_silence_costs_no_network_and_shows_the_avatar_s_own_frames() -> None:
    avatar, stamp = clip_avatar(), Stamp()
    batch = renderer_of(avatar, stamp).render(ask(avatar, silent_rows(10), first=3))
    tensors = unpack(avatar)
    assert stamp.batches == [] and tensors.y_planes is not None and tensors.uv_planes is not None
    shown = [3, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    np.testing.assert_array_equal(batch.y_planes, tensors.y_planes[shown])
    np.testing.assert_array_equal(batch.uv_planes, tensors.uv_planes[shown])


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_picture_is_the_blend_of_its_frame(share: float) -> None:
    """Against the whole-picture blend in RGB, converted, and untouched outside the patch."""
    avatar, stamp = clip_avatar(), Stamp()
    renderer = renderer_of(avatar, stamp)
    rows = spoken(2, share)
    batch = renderer.render(ask(avatar, rows, first=1))
    tensors = unpack(avatar)
    told = read_rows(rows, np.ones(2, np.bool_))
    faces = stamp.run(torch.from_numpy(np.array(tensors.latents[1:3])), torch.from_numpy(told.tokens)).numpy()
    for i in (0, 1):
        canvas, mesh = drawn(2 * (i + 1))
        box = tensors.box(i + 1)
        crop = crop_around(box)
        labels = MeshLabels().of(cut(canvas, crop), mesh[:, :2] - (crop.left, crop.top))
        mask = blend_mask(talking_region(labels), box, crop)
        assert mask.max() > 200
        y_plane, uv_plane = inside(avatar, blend(canvas, faces[i], box, mask, crop, share))
        for made, want in ((batch.y_planes[i], y_plane), (batch.uv_planes[i], uv_plane)):
            off = np.abs(made.astype(int) - want)
            assert off.max() <= 1 and (off > 0).mean() < 1e-4, "the conversion of a part may round a tie otherwise"
        assert np.abs(batch.y_planes[i].astype(int) - inside(avatar, canvas)[0]).max() > 3


def test_frames_without_a_face_keep_their_place_and_are_never_painted() -> None:
    avatar, stamp = clip_avatar(5, (2,)), Stamp()
    tensors = unpack(avatar)
    assert tensors.faces.tolist() == [True, True, False, True, True] and not tensors.masks[2].any()
    batch = renderer_of(avatar, stamp).render(ask(avatar, spoken(5)))
    assert sum(stamp.batches) == 4 and tensors.y_planes is not None
    same = [np.array_equal(batch.y_planes[i], tensors.y_planes[i]) for i in range(5)]
    assert same == [False, False, True, False, False]
    boxes = [tensors.box(i).left for i in range(5)]
    assert boxes == sorted(boxes)


def test_sessions_share_batches_and_get_what_they_would_get_alone() -> None:
    clip, photo, stamp = clip_avatar(), photo_avatar(), Stamp()
    avatars = {avatar.avatar_id: avatar for avatar in (clip, photo)}
    renderer = MuseTalkRenderer(avatars.__getitem__, MuseTalkEngines(stamp, unpack(clip).version, 8))
    rows = np.concatenate([spoken(2), silent_rows(1), spoken(2, 0.5, seed=3)])
    orders = [DrawOrder(ask(clip, rows, 2)), DrawOrder(ask(photo, rows)), DrawOrder(ask(clip, rows), crops_only=True)]
    parts = renderer.launch([Span(order, 0, 5) for order in orders]).wait()
    assert stamp.batches == [12], "one call for all, and none for silence"
    for order, part in zip(orders, parts, strict=True):
        alone, together = renderer.alone(order), renderer.join(order, [part])
        name = "crops" if order.crops_only else "y_planes"
        np.testing.assert_array_equal(getattr(alone, name), getattr(together, name))


def test_a_drawing_thread_serves_many_orders() -> None:
    avatar, stamp = clip_avatar(), Stamp()
    renderer = renderer_of(avatar, stamp, batch=8)
    drawing = renderer.overlapped()
    futures = [drawing.submit(DrawOrder(ask(avatar, spoken(3, seed=i), first=i))) for i in range(6)]
    wrong = drawing.submit(DrawOrder(ask(avatar, np.zeros((2, 7), np.float32))))
    for i, future in enumerate(futures):
        want = renderer.render(ask(avatar, spoken(3, seed=i), first=i))
        np.testing.assert_array_equal(future.result(timeout=60).y_planes, want.y_planes)  # type: ignore[union-attr]
    with pytest.raises(ShapeError, match="motion"):
        wrong.result(timeout=60)
    drawing.close()


def test_only_what_was_painted_travels() -> None:
    avatar = clip_avatar()
    rows = np.concatenate([silent_rows(2), spoken(3), silent_rows(1), spoken(2, seed=1)])
    want = renderer_of(avatar).render(ask(avatar, rows))
    assert isinstance(want, OverlaidBatch)
    sent = pickle.dumps(want.parts)
    patch = avatar.tensors["masks"][0].size * 3 // 2
    assert 5 * patch < len(sent) < 5 * patch + 2000
    got: PaintedParts = pickle.loads(sent)  # noqa: S301 - made above
    assert len(got) == 8 and got.painted.tolist() == [False] * 2 + [True] * 3 + [False] + [True] * 2
    for colour in ("bt709", "bt601"):
        whole = got.over(MuseTalkOwnPictures(avatar, unpack(avatar), colour))
        canvas = Nv12Canvas(*rgb_to_nv12(avatar.canvas_rgb))
        for i in range(8):
            paste(canvas, whole.frame(i))
            rect = avatar.rect
            shown = canvas.y_plane[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
            np.testing.assert_array_equal(shown, whole.y_planes[i])
        if colour == "bt709":
            np.testing.assert_array_equal(whole.y_planes, want.y_planes)
            np.testing.assert_array_equal(whole.uv_planes, want.uv_planes)


def test_parts_of_a_batch_are_those_frames() -> None:
    avatar = clip_avatar()
    rows = np.concatenate([silent_rows(1), spoken(2), silent_rows(1), spoken(1, seed=1)])
    batch = renderer_of(avatar).render(ask(avatar, rows))
    for start, stop in ((0, 5), (1, 4), (3, 5), (4, 4)):
        for some in (batch.part(start, stop), batch.kept().part(start, stop)):
            assert len(some) == stop - start and some.rect == batch.rect
            np.testing.assert_array_equal(some.y_planes, batch.y_planes[start:stop])
            np.testing.assert_array_equal(some.uv_planes, batch.uv_planes[start:stop])
    assert batch.frame(-1).over is not None
    with pytest.raises(IndexError):
        batch.frame(5)
    np.testing.assert_array_equal(batch.frame(0).y_plane, unpack(avatar).y_planes[0])  # type: ignore[index]
    assert np.shares_memory(batch.frame(0).y_plane, unpack(avatar).y_planes), "nothing is copied"  # type: ignore[arg-type]


def test_a_photo_changes_its_rectangle_alone() -> None:
    avatar = photo_avatar()
    assert avatar.rect.w < avatar.canvas_rgb.shape[1] and "y_planes" not in avatar.tensors
    batch = renderer_of(avatar).render(ask(avatar, np.concatenate([silent_rows(1), spoken(1)])))
    rect = avatar.rect
    own = rgb_to_nv12(np.ascontiguousarray(avatar.canvas_rgb[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]))
    np.testing.assert_array_equal(batch.y_planes[0], own[0])
    assert batch.rect == rect and not np.array_equal(batch.y_planes[1], own[0])
    np.testing.assert_array_equal(batch.y_planes[1][: rect.h // 3], own[0][: rect.h // 3], "the upper face stays")


def test_what_cannot_be_drawn_is_refused() -> None:
    avatar = photo_avatar()
    renderer = renderer_of(avatar)
    with pytest.raises(InvalidInputError, match="fps"):
        renderer.render(ask(avatar, silent_rows(1), fps=50))
    with pytest.raises(ShapeError, match="motion"):
        renderer.render(ask(avatar, np.zeros((1, 265), np.float32)))
    stale = MuseTalkRenderer(lambda _: avatar, MuseTalkEngines(Stamp(), "other"))
    with pytest.raises(StaleAvatarError, match="register it again"):
        stale.render(ask(avatar, silent_rows(1)))
    foreign = MuseTalkRenderer(lambda _: replace(avatar, family="mini"), MuseTalkEngines(Stamp(), "other"))
    with pytest.raises(InvalidInputError, match="family mini"):
        foreign.render(ask(avatar, silent_rows(1)))
    assert len(renderer.render(ask(avatar, silent_rows(0)))) == 0 and renderer.warm_avatars() == [avatar.avatar_id]


def test_both_colour_standards_show_the_same_picture() -> None:
    canvas = drawn()[0]
    kept, wanted = rgb_to_nv12(canvas), rgb_to_nv12(canvas, colour="bt601")
    made = recoloured(*kept, "bt601")
    assert np.abs(made[0].astype(int) - wanted[0]).mean() < 0.6 and np.abs(made[1].astype(int) - wanted[1]).max() <= 2
    assert recoloured(*kept, "bt709")[0] is not kept[0]
    assert np.abs(to_rgb(*kept).astype(int) - canvas).mean() < 3


def test_above_25_frames_the_square_around_the_face_is_interpolated_into_the_moving_clip() -> None:
    avatar, network = clip_avatar(), MeanInterpolator()
    renderer, tail = renderer_of(avatar), MuseTalkTail(lambda _: avatar, network)
    request = ask(avatar, spoken(2), fps=50)
    crops = renderer.crops(request)
    assert crops.crops.shape == (2, 512, 512, 3) and crops.first_frame == 0
    native = renderer.render(ask(avatar, spoken(2)))
    positions = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(15, 2)]
    pictures = torch.from_numpy(np.array(crops.crops))
    batch = tail.compose(avatar.avatar_id, "bt709", pictures, [Placed(min(int(p), 1), p) for p in positions])
    assert batch.y_planes.shape[1:] == (avatar.rect.h, avatar.rect.w)
    for made, want in ((batch.y_planes[0], native.y_planes[0]), (batch.y_planes[2], native.y_planes[1])):
        assert np.abs(made.astype(int) - want).mean() < 1.0, "the same picture, resampled around the face"
    assert network.calls == [[0.5]], "the clip shows this place again on its way back, and it is made once"
    still = MuseTalkTail(lambda _: photo_avatar(), network)
    crop = torch.from_numpy(np.array(renderer_of(photo_avatar()).crops(ask(photo_avatar(), spoken(1))).crops))
    assert len(still.compose(photo_avatar().avatar_id, "bt601", crop, [Placed(0, Fraction(0))])) == 1


def test_parts_of_the_face_come_from_the_mesh_where_there_is_no_parser() -> None:
    canvas, mesh = drawn()
    tensors = unpack(photo_avatar())
    crop = crop_around(tensors.box(0))
    labels = MeshLabels().of(cut(canvas, crop), mesh[:, :2] - (crop.left, crop.top))
    at = ((mesh[:, :2] - (crop.left, crop.top) + 0.5) * 512 / crop.width).astype(int)
    assert labels[at[50][1], at[50][0]] == 1 and labels[at[1][1], at[1][0]] == 10
    assert set(np.unique(labels)) >= {0, 1, 10, 12, 13}
    mask = blend_mask(talking_region(labels), tensors.box(0), crop)
    chin, lips = at[152] * crop.width // 512, at[17] * crop.width // 512
    assert mask[lips[1], lips[0]] > 200 and mask[chin[1] - 6, chin[0]] > 60 and not mask[: crop.width // 3].any()


def test_a_real_picture_is_registered_from_its_file(tmp_path: Path) -> None:
    from PIL import Image

    from pipeline.musetalk.load import load_source_models

    picture = tmp_path / "me.png"
    Image.fromarray(presenter().rgb).save(picture)
    made = register_picture(picture.read_bytes(), face_mesh(), load_source_models(narrow_folder()), "me")
    known = unpack(photo_avatar()).box(0)
    assert np.abs(np.array(unpack(made).box(0)) - known).max() < 12


def test_a_clip_that_would_not_fit_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.musetalk import registration

    pairs = [drawn(2 * i) for i in range(4)]
    size = sum(array.nbytes for array in unpack(clip_avatar(4)).pack().values())
    monkeypatch.setattr(registration, "MAX_BYTES", size * 3 // 4)
    made = make_avatar(lambda: (canvas for canvas, _ in pairs), [mesh for _, mesh in pairs], source_models())
    assert len(unpack(made)) == 3


def nv12(canvases: list[np.ndarray]) -> list[Nv12Canvas]:
    return [Nv12Canvas(*rgb_to_nv12(canvas)) for canvas in canvases]


def test_a_real_clip_is_followed_and_frames_without_a_face_keep_their_place() -> None:
    canvases = [drawn(2 * i)[0] for i in range(8)]
    canvases[4] = np.full_like(canvases[0], 90)
    made = unpack(register_clip(video_of(nv12(canvases)), face_mesh(), source_models(), "clip"))
    assert len(made) == 8 and made.faces.tolist() == [True] * 4 + [False] + [True] * 3
    known = unpack(clip_avatar(8, (4,)))
    assert np.abs(made.boxes - known.boxes).max() < 14 and made.boxes[7, 0] > made.boxes[0, 0] + 6
    assert made.y_planes is not None and made.y_planes[4].std() < 8 < made.y_planes[3].std()
    with pytest.raises(PortraitError, match="too few frames show a face"):
        register_clip(video_of(nv12([canvases[4]] * 3)), face_mesh(), source_models())


def test_a_clip_before_a_still_wall_keeps_what_moves_alone_at_both_rates() -> None:
    pairs = [drawn(2 * i) for i in range(3)]
    wall = np.full((640, 400, 3), 70, np.uint8)
    canvases = [np.concatenate([wall, canvas], axis=1) for canvas, _ in pairs]
    meshes = [(mesh + np.array([400, 0, 0], np.float32)).astype(np.float32) for _, mesh in pairs]
    avatar = make_avatar(lambda: iter(canvases), meshes, source_models())
    rect, tensors = avatar.rect, unpack(avatar)
    assert rect.x >= 380 and tensors.y_planes is not None and tensors.y_planes.shape == (3, rect.h, rect.w)
    renderer, tail = renderer_of(avatar), MuseTalkTail(lambda _: avatar, MeanInterpolator())
    native = renderer.render(ask(avatar, spoken(3)))
    for i in range(3):
        painted = np.abs(native.y_planes[i].astype(int) - inside(avatar, canvases[i])[0]) > 3
        rows, columns = np.nonzero(painted)
        box = tensors.box(i)
        assert box.left - rect.x <= columns.min() and columns.max() < box.right - rect.x and len(rows) > 50
    crops = torch.from_numpy(np.array(renderer.crops(ask(avatar, spoken(3), fps=50)).crops))
    positions = [Placed(i, Fraction(i)) for i in range(3)]
    made = tail.compose(avatar.avatar_id, "bt709", crops, positions)
    assert np.abs(made.y_planes.astype(int) - native.y_planes).mean() < 1.0 and made.rect == rect
    between = tail.compose(avatar.avatar_id, "bt709", crops[:1], [Placed(0, Fraction(1, 2))])
    assert np.abs(between.y_planes[0].astype(int) - native.y_planes[:2].mean(axis=0)).mean() < 4
