"""The picture around the face moves by the same formula, without a seam, and rests to the bit."""

import functools

import cv2
import numpy as np
import torch

from engines.mini.body_warp import BodyPainter, BodyWarp, build_body
from engines.mini.face_planes import FacePainter, FacePlanes, build_face_planes
from engines.mini.mesh_deform import Deformation, Pose, build_pose
from engines.mini.mesh_renderer import MeshFace, MeshRenderer
from engines.mini.motion_limits import limit_motion
from engines.mini.outline import Outline, make_outline
from engines.motion_layout import EXP, TRANSLATION
from kernels.arrays import F32, F64, U8
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.face_crop import soft_mask
from tests.support.mesh import landmarks, motion, paint

ROOM, BOTTOM = 100, 300
"""Canvas pixels to the left and right of the crop and above it, and below it."""
SIDE = 512


@functools.cache
def canvas() -> U8:
    """A textured picture with the painted face's crop at (100, 100)."""
    noise = np.random.default_rng(3).normal(0, 1, (SIDE + ROOM + BOTTOM, SIDE + 2 * ROOM)).astype(np.float32)
    soft = cv2.GaussianBlur(noise, (0, 0), 3.0)
    picture = np.clip(110 + 260 * soft, 0, 255).astype(np.uint8)[..., None].repeat(3, -1)
    crop = paint(landmarks())
    oval = np.zeros((SIDE, SIDE), np.uint8)
    cv2.ellipse(oval, (256, 250), (120, 160), 0, 0, 360, 255, -1)
    picture[ROOM : ROOM + SIDE, ROOM : ROOM + SIDE][oval > 0] = crop[oval > 0]
    return np.ascontiguousarray(picture)


@functools.cache
def outline() -> Outline:
    matte = np.zeros(canvas().shape[:2], np.uint8)
    cv2.ellipse(matte, (ROOM + 256, ROOM + 220), (190, 270), 0, 0, 360, 255, -1)
    cv2.rectangle(matte, (60, ROOM + 460), (canvas().shape[1] - 60, len(matte)), 255, -1)
    return make_outline(matte, (-float(ROOM), -float(ROOM)), 1.0)


def planes() -> tuple[U8, U8]:
    return rgb_to_nv12(canvas())


@functools.cache
def body() -> BodyWarp:
    square = (ROOM, ROOM, ROOM + SIDE, ROOM + SIDE)
    return build_body(landmarks(), outline(), *planes(), square, soft_mask(14))


@functools.cache
def face() -> MeshFace:
    crop = np.ascontiguousarray(canvas()[ROOM : ROOM + SIDE, ROOM : ROOM + SIDE])
    return MeshRenderer().prepare(crop, landmarks(), outline())


@functools.cache
def face_planes() -> FacePlanes:
    crop = np.ascontiguousarray(canvas()[ROOM : ROOM + SIDE, ROOM : ROOM + SIDE])
    return build_face_planes(crop, crop, landmarks(), (0, 0, SIDE, SIDE))


def moved(
    *, angles: tuple[float, float, float] = (0, 0, 0), tx: float = 0.0, ty: float = 0.0, breath: float = 0.0
) -> torch.Tensor:
    vector = motion(angles=angles).clone()
    vector[:, TRANSLATION.start] = tx
    vector[:, TRANSLATION.start + 1] = ty
    vector[:, EXP.start + 2] = breath
    return vector


def draw(vector: torch.Tensor) -> U8:
    """Luma of the rectangle."""
    painter, posed = FacePainter(face_planes(), face().mouth), next(MeshRenderer().posed(face(), vector))
    height, width = planes()[0].shape
    luma, chroma = np.empty((height, width), np.uint8), np.empty((height // 2, width // 2, 2), np.uint8)
    BodyPainter(body()).draw(posed.deformation, posed.pose, painter.draw(posed), (luma, chroma))
    return luma


def flow(before: U8, after: U8) -> F64:
    found = cv2.calcOpticalFlowFarneback(before, after, None, 0.5, 4, 25, 5, 7, 1.5, 0)
    return np.asarray(found, np.float64)


def test_a_still_head_is_the_still_picture() -> None:
    still, picture = draw(moved()), planes()[0]
    outside = np.ones(picture.shape, bool)
    outside[ROOM : ROOM + SIDE, ROOM : ROOM + SIDE] = False
    np.testing.assert_array_equal(still[outside], picture[outside])
    assert np.abs(still.astype(int) - picture).max() <= 14, "the lips' own seam is drawn anew"


def test_hair_moves_as_the_head_and_the_background_stands_still() -> None:
    found = flow(planes()[0], draw(moved(tx=0.03)))
    shift = 0.03 * float(face().deformation.face_width)
    assert shift > 6
    hair, behind = found[ROOM - 20 : ROOM + 30, 320:390, 0], found[20:300, 10:120]
    assert abs(np.median(hair) - shift) < 0.6
    assert np.abs(behind).mean() < 0.1


def test_shoulders_follow_less() -> None:
    found = flow(planes()[0], draw(moved(tx=0.03)))
    shift = 0.03 * float(face().deformation.face_width)
    shoulder = np.median(found[ROOM + 540 : ROOM + 570, 200:500, 0])
    assert 0.1 * shift < shoulder < 0.5 * shift


def test_breath_lifts_the_chest_and_not_the_head() -> None:
    found = flow(planes()[0], draw(moved(breath=0.012)))
    lift = 0.012 * float(face().deformation.face_width)
    assert abs(np.median(found[ROOM + 540 : ROOM + 570, 200:500, 1]) + lift) < 0.5
    assert np.abs(np.median(found[ROOM + 50 : ROOM + 250, 250:450, 1])) < 0.2


def seam(picture: U8, still: U8) -> float:
    """How much rougher the picture is across the ends of the face's square than the still one: a seam shows here."""
    worst = 0.0
    for x in (ROOM + 14, ROOM + SIDE - 15):
        band = slice(x - 4, x + 5)
        rough = np.abs(np.diff(picture[ROOM : ROOM + 300, band].astype(float), axis=1)).mean(0)
        plain = np.abs(np.diff(still[ROOM : ROOM + 300, band].astype(float), axis=1)).mean()
        worst = max(worst, float(rough.max() / plain))
    return worst


def test_no_seam_shows_where_the_crop_ends() -> None:
    still = planes()[0]
    for vector in (moved(tx=0.03), moved(angles=(3.0, 4.0, 4.0)), moved(tx=-0.02, ty=0.02, angles=(-3.0, -3.0, -5.0))):
        assert seam(draw(vector), still) < 1.6


def test_the_seam_detector_finds_a_planted_seam() -> None:
    still = planes()[0]
    torn = still.copy()
    torn[:, ROOM + 14 :] = np.roll(still, 9, axis=0)[:, ROOM + 14 :]
    assert seam(torn, still) > 2.0


def test_crop_and_surroundings_move_by_the_same_field() -> None:
    vector = moved(tx=0.02, angles=(3.0, 4.0, 3.0))
    deformation, poses = face().deformation, MeshRenderer().poses(face(), vector)
    inside = flow_field(deformation, poses[0], deformation.face.nodes.numpy())
    around = body().field
    at = (around.nodes.numpy()[20, 30] + 0.0, around.nodes.numpy()[40, 25] + 0.0)
    for place in at:
        nearest = np.abs(deformation.face.nodes.numpy() - place).sum(-1)
        row, column = np.unravel_index(int(nearest.argmin()), nearest.shape)
        mine = field_at(deformation, poses[0], place)
        assert np.abs(inside[row, column] - mine).max() < 0.8


def flow_field(deformation: Deformation, pose: Pose, nodes: F32) -> F32:
    from engines.mini.mesh_deform import posed_displacement

    assert nodes.shape[-1] == 2
    return np.asarray(posed_displacement(deformation.face, deformation, torch.zeros(1, 1, 1, 2), pose)[0].numpy())


def field_at(deformation: Deformation, pose: Pose, place: F32) -> F32:
    from engines.mini.mesh_deform import posed_displacement

    field = posed_displacement(body().field, deformation, torch.zeros(1, 1, 1, 2), pose)[0].numpy()
    distance = np.abs(body().field.nodes.numpy() - place).sum(-1)
    row, column = np.unravel_index(int(distance.argmin()), distance.shape)
    return np.asarray(field[row, column])


def test_frames_do_not_depend_on_their_batch() -> None:
    vectors = torch.cat([moved(tx=0.01), moved(angles=(2.0, 3.0, 1.0)), moved(ty=-0.01, breath=0.004)])
    deformation, poses = face().deformation, MeshRenderer().poses(face(), vectors)
    for i in range(3):
        alone = build_pose(deformation, limit_motion(vectors[i : i + 1]))
        for together, single in zip(
            (poses[i].rotation, poses[i].shift, poses[i].breath),
            (alone.rotation, alone.shift, alone.breath),
            strict=True,
        ):
            assert torch.equal(together, single)


def test_wild_motion_tears_nothing() -> None:
    generator = torch.Generator().manual_seed(3)
    wild = torch.randn(1, 265, generator=generator) * 50
    assert abs(float(draw(wild).mean()) - float(planes()[0].mean())) < 12


def test_what_it_holds_is_known() -> None:
    height, width = planes()[0].shape
    assert body().nbytes > 6 * height * width
