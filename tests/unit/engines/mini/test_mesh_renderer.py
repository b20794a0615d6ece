from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engines.mini.mesh_renderer import MeshRenderer
from engines.mini.motion_limits import limit_motion
from engines.motion_layout import MOTION_DIM
from kernels.arrays import F32, F64, U8
from kernels.errors import ShapeError
from kernels.sampling import mesh_warp as warp_module
from tests.support.mesh import motion, motion_of, prepared, random_motion, source

OPEN = 16.0
"""Gap in pixels of the source that shows its teeth."""


def draw(vectors: torch.Tensor, gap: float = 0.0) -> U8:
    return np.asarray(MeshRenderer().render(prepared(gap), vectors).numpy())


def luma(picture: NDArray[Any]) -> F64:
    return np.asarray(picture.astype(np.float64) @ np.array([0.299, 0.587, 0.114]), np.float64)


def mouth_column(picture: U8, gap: float = 0.0) -> F64:
    """Pixels down the middle of the mouth, 40 px above to 52 px below, RGB."""
    x, y = (int(v) for v in prepared(gap).mouth.centre)
    return np.asarray(picture[y - 40 : y + 52, x - 1 : x + 2].mean(1), np.float64)


def opening_px(picture: U8, gap: float = 0.0) -> int:
    """Rows from the first to the last that is neither lip nor skin: teeth and darkness are far less red than those."""
    column = mouth_column(picture, gap)
    rows = np.flatnonzero(column[:, 0] - column[:, 2] < 45)
    return int(rows[-1] - rows[0] + 1) if len(rows) else 0


def eye(picture: U8, *, right: bool) -> F64:
    box = (prepared().right_eye if right else prepared().left_eye).box.tolist()
    x, y, width, height = (v // 2 for v in box)
    return luma(picture)[y + height // 4 : y + height, x : x + width]


def test_rest_is_the_source_where_the_mouth_is_closed() -> None:
    difference = np.abs(draw(motion())[0].astype(int) - source()[0])
    assert difference.mean() < 0.05
    assert difference.max() <= 12


def test_rest_closes_a_mouth_that_the_source_shows_open() -> None:
    shown = opening_px(source(OPEN)[0], OPEN)
    assert shown >= 12
    assert opening_px(draw(motion(), OPEN)[0], OPEN) == 0


@pytest.mark.parametrize("gap", [0.0, OPEN])
@pytest.mark.parametrize("actions", [{"press": 1.0}, {"pucker": 1.0}, {"smile": 1.0}, {"wide": 1.0}])
def test_no_teeth_show_while_the_commanded_gap_is_closed(gap: float, actions: dict[str, float]) -> None:
    assert opening_px(draw(motion_of(actions), gap)[0], gap) <= 1


@pytest.mark.parametrize("gap", [0.0, OPEN])
def test_the_opening_grows_with_the_commanded_gap(gap: float) -> None:
    steps = np.linspace(0, 1, 6)
    vectors = torch.cat([motion(jaw_open=float(k)) for k in steps])
    seen = np.array([opening_px(frame, gap) for frame in draw(vectors, gap)], dtype=np.float64)
    assert (np.diff(seen) > 0).all()
    assert np.corrcoef(steps, seen)[0, 1] > 0.98
    wanted = 0.38 * prepared(gap).mouth.mouth_width
    assert 0.75 * wanted < seen[-1] < 1.3 * wanted


def test_an_open_mouth_shows_teeth_above_darkness_above_tongue() -> None:
    column = luma(mouth_column(draw(motion(jaw_open=1.0, lips_part=0.6))[0]))
    inside = column[30:80]
    brightest, darkest = int(inside.argmax()), int(inside.argmin())
    assert inside.min() < 40
    assert inside[:darkest].max() > 120
    assert brightest != darkest


def test_a_tucked_lip_shows_teeth_and_is_no_wide_mouth() -> None:
    tucked, wide = draw(torch.cat([motion(lower_tuck=1.0), motion(wide=0.9, jaw_open=0.12, lips_part=0.7)]))
    assert luma(mouth_column(tucked)).max() > luma(mouth_column(source()[0])).max() + 2
    assert np.abs(mouth_column(tucked) - mouth_column(wide)).max() > 60
    assert 2 <= opening_px(tucked) < opening_px(wide)


def test_a_pucker_draws_the_corners_in() -> None:
    def lip_columns(picture: U8) -> int:
        x, y = (int(v) for v in prepared().mouth.centre)
        row = picture[y - 25 : y + 25, x - 70 : x + 70].astype(int)
        return int(((row[..., 1] < 120) & (row[..., 0] > 120)).any(0).sum())

    rest, pucker = draw(torch.cat([motion(), motion(pucker=1.0)]))
    assert lip_columns(pucker) < 0.8 * lip_columns(rest)


def test_a_blink_covers_the_eye_and_only_the_eyes() -> None:
    frames = draw(torch.cat([motion(blink_right=k, blink_left=k) for k in (0.0, 0.25, 0.5, 0.75, 1.0)]))
    for right in (True, False):
        # the white and the iris are gone: what is left is skin and one dark line
        white = [int((eye(frame, right=right) > 225).sum()) for frame in frames]
        assert all(a >= b for a, b in zip(white, white[1:], strict=False))
        assert white[0] > 40 and white[-1] == 0
        dark = (eye(frames[-1], right=right) < 70).sum(0)
        assert dark.max() <= 6
    below = slice(prepared().right_eye.box[1].item() // 2 + prepared().right_eye.box[3].item() // 2 + 2, None)
    assert np.array_equal(frames[0][below], frames[-1][below])


def test_one_eye_can_wink() -> None:
    rest, wink = draw(torch.cat([motion(), motion(blink_right=1.0)]))
    assert not np.array_equal(eye(rest, right=True), eye(wink, right=True))
    assert np.array_equal(eye(rest, right=False), eye(wink, right=False))


def test_gaze_moves_the_iris_and_not_the_face() -> None:
    left, rest, right = draw(torch.cat([motion(gaze_x=-1.0), motion(), motion(gaze_x=1.0)]))

    def iris_x(frame: U8) -> float:
        weight = np.clip(110 - eye(frame, right=True), 0, None)
        weight[: len(weight) // 4] = 0
        return float((weight.sum(0) * np.arange(weight.shape[1])).sum() / weight.sum())

    assert iris_x(left) + 1.0 < iris_x(rest) < iris_x(right) - 1.0
    changed = np.abs(left.astype(int) - right).max(-1) > 0
    rows = np.flatnonzero(changed.any(1))
    assert rows[-1] - rows[0] < 60


def test_brows_rise() -> None:
    def brow_row(frame: U8) -> float:
        x, y = (int(v) for v in source()[1][105, :2])
        dark = np.clip(140 - luma(frame)[y - 25 : y + 14, x - 6 : x + 6], 0, None).sum(1)
        return float((dark * np.arange(len(dark))).sum() / dark.sum())

    rest, raised = draw(torch.cat([motion(), motion(brow_raise=1.0)]))
    assert brow_row(raised) < brow_row(rest) - 4


def test_the_border_is_the_source_in_every_frame() -> None:
    crop = source()[0]
    for frame in draw(random_motion(12, seed=2, spread=5.0)):
        for edge in (np.s_[:2], np.s_[-2:], np.s_[:, :2], np.s_[:, -2:]):
            assert np.array_equal(frame[edge], crop[edge])


def test_frames_are_deterministic_and_independent_of_their_batch() -> None:
    vectors = random_motion(5, seed=7)
    together = draw(vectors)
    assert np.array_equal(together, draw(vectors))
    for i in (0, 2, 4):
        assert np.array_equal(together[i], draw(vectors[i : i + 1])[0])


@pytest.mark.parametrize("reference", [False, True])
def test_the_batched_path_agrees_with_the_single_frame_path(reference: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # what an accelerator runs: whole batches, and the op's torch reference
    vectors = random_motion(3, seed=9)
    single = draw(vectors)
    texture = prepared().texture.repeat(3, 1, 1, 1)
    if reference:
        monkeypatch.setattr(warp_module, "_remap", _as_on_an_accelerator)
    with torch.inference_mode():
        batched = MeshRenderer()._draw(prepared(), limit_motion(vectors), texture).numpy()
    difference = np.abs(batched.astype(int) - single)
    assert difference.mean() < 0.1
    assert (difference > 12).mean() < 1e-4


def _as_on_an_accelerator(
    texture: torch.Tensor,
    lattice: torch.Tensor,
    cell: int,
    region_origin: warp_module.Point,
    texture_origin: warp_module.Point,
    texture_scale: float,
    out: torch.Tensor | None,
) -> torch.Tensor:
    assert out is None
    return warp_module.mesh_warp_reference(
        texture,
        lattice,
        cell,
        region_origin=region_origin,
        texture_origin=texture_origin,
        texture_scale=texture_scale,
    )


def test_extreme_motion_still_draws_a_face() -> None:
    generator = torch.Generator().manual_seed(3)
    wild = torch.randn(4, MOTION_DIM, generator=generator) * 50
    frames = draw(wild)
    assert frames.dtype == np.uint8
    assert np.abs(frames.astype(int).mean((1, 2, 3)) - source()[0].mean()).max() < 12


def test_small_steps_of_motion_make_small_steps_of_picture() -> None:
    start, end = random_motion(2, seed=21)
    path = torch.stack([start + (end - start) * k / 16 for k in range(17)])
    steps = np.abs(np.diff(draw(path).astype(int), axis=0)).mean((1, 2, 3))
    assert steps.max() < 4 * np.median(steps) + 0.2


def test_one_face_serves_many_motions() -> None:
    before = draw(motion(jaw_open=0.4))
    draw(random_motion(3, seed=11))
    assert np.array_equal(before, draw(motion(jaw_open=0.4)))


def test_size_is_known() -> None:
    assert 3 * 2**20 < prepared().nbytes < 40 * 2**20


@pytest.mark.parametrize(
    "vectors",
    [
        torch.zeros(0, MOTION_DIM),
        torch.zeros(MOTION_DIM),
        torch.zeros(1, MOTION_DIM - 1),
        torch.zeros(1, MOTION_DIM, dtype=torch.float64),
        torch.zeros(1, MOTION_DIM, dtype=torch.int32),
        torch.full((1, MOTION_DIM), float("nan")),
        torch.full((2, MOTION_DIM), float("inf")),
        np.zeros((1, MOTION_DIM), np.float32),
    ],
)
def test_wrong_motion_is_refused(vectors: torch.Tensor) -> None:
    with pytest.raises(ShapeError):
        MeshRenderer().render(prepared(), vectors)


@pytest.mark.parametrize(
    ("crop", "points"),
    [
        (np.zeros((512, 512), np.uint8), np.zeros((468, 3), np.float32)),
        (np.zeros((512, 512, 3), np.float32), np.zeros((468, 3), np.float32)),
        (np.zeros((512, 512, 3), np.uint8), np.zeros((478, 3), np.float32)),
        (np.zeros((512, 512, 3), np.uint8), np.zeros((468, 3), np.float64)),
        (np.zeros((512, 512, 3), np.uint8), np.full((468, 3), np.nan, np.float32)),
        (np.zeros((512, 512, 3), np.uint8), np.zeros((468, 3), np.float32)),
        (np.zeros((512, 512, 3), np.uint8), np.full((468, 3), 4000, np.float32)),
    ],
)
def test_a_wrong_source_is_refused(crop: U8, points: F32) -> None:
    with pytest.raises(ShapeError):
        MeshRenderer().prepare(crop, points)
