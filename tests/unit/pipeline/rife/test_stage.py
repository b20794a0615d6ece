"""The stage `rife` over a network whose answers are known: pairs, holds, static pairs, batches, the tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from kernels.arrays import U8
from kernels.errors import InvalidInputError, LiveAnchorError, ShapeError
from pipeline.rife.stage import Rife, RifeItem
from pipeline.session.tail import Placed, StillTail, empty_batch
from pipeline.stages import RifeRequest
from pipeline.types import CROP_SIZE, Avatar, CropBatch, FaceRect, Nv12RectBatch
from tests.support.rife import MeanInterpolator

RECT = FaceRect(0, 0, 2, 2)


class GreyTail:
    """Luma is the crop's first value; remembers where bodies were."""

    def __init__(self) -> None:
        self.positions: list[float] = []
        self.composited = 0

    def compose(self, avatar_id: str, colour: str, crops: torch.Tensor, frames: Sequence[Placed]) -> Nv12RectBatch:
        if avatar_id == "unknown":
            raise InvalidInputError("avatar_id", avatar_id, "a known one")
        self.positions += [float(frame.position) for frame in frames]
        self.composited += len(crops)
        if not frames:
            return empty_batch(RECT)
        luma = np.stack([np.full((2, 2), int(crops[frame.crop][0, 0, 0]), np.uint8) for frame in frames])
        return Nv12RectBatch(RECT, luma, np.zeros((len(luma), 1, 2), np.uint8))


def crops(levels: Sequence[int], first: int = 0, hold: Sequence[int] = (), **rest: object) -> CropBatch:
    pictures = np.empty((len(levels), CROP_SIZE, CROP_SIZE, 3), np.uint8)
    for picture, level in zip(pictures, levels, strict=True):
        picture[:] = level
    flags = np.zeros(len(levels), np.bool_)
    flags[list(hold)] = True
    return CropBatch(pictures, flags, "a", first, **rest)  # type: ignore[arg-type]


def shown(batch: Nv12RectBatch | LiveAnchorError) -> list[int]:
    assert isinstance(batch, Nv12RectBatch), batch
    return [int(plane[0, 0]) for plane in batch.y_planes]


def item(now: CropBatch, before: CropBatch | None = None, fps: float = 50) -> RifeItem:
    return RifeItem(RifeRequest(fps, "bt709"), now, before)


def test_odd_frames_lie_midway() -> None:
    network, tail = MeanInterpolator(), GreyTail()
    stage = Rife(network, tail)
    assert shown(stage.run_one(item(crops([0, 20, 60])))) == [0, 10, 20, 40, 60]
    assert shown(stage.run_one(item(crops([100], 3), crops([0, 20, 60])))) == [80, 100]
    assert tail.positions == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    assert network.encoded == 5, "a crop is encoded once, though it is part of two pairs"
    assert {t for call in network.calls for t in call} == {0.5}


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        (crops([100, 120], 3, hold=[0]), crops([0, 20, 60]), [60, 100, 110, 120]),
        (crops([100, 120], 3, hold=[1]), crops([0, 20, 60]), [80, 100, 100, 120]),
        (crops([100, 120], 3, epoch=1), crops([0, 20, 60]), [60, 100, 110, 120]),
        (crops([100, 120], 4), crops([0, 20, 60]), [60, 100, 110, 120]),
        (replace(crops([100, 120], 3), avatar_id="b"), crops([0, 20, 60]), [100, 100, 110, 120]),
        (crops([100, 120], 3), None, [100, 110, 120]),
        (crops([100, 120], 3), crops([]), [100, 110, 120]),
    ],
    ids=["flag", "flag inside", "epoch", "gap", "avatar", "first", "empty carry"],
)
def test_nothing_is_blended_across_a_boundary(now: CropBatch, before: CropBatch | None, expected: list[int]) -> None:
    tail = GreyTail()
    assert shown(Rife(MeanInterpolator(), tail).run_one(item(now, before))) == expected
    if before is not None and len(before) and now.hold[0]:
        assert tail.positions[0] == 2, "the body waits with the face"


def test_static_pairs_are_found_exactly() -> None:
    network, tail = MeanInterpolator(), GreyTail()
    stage = Rife(network, tail)
    same = crops([50, 50, 50])
    assert shown(stage.run_one(item(same))) == [50] * 5
    assert not network.calls and tail.composited == 3 and stage.pairs_static == 2
    mouth = crops([50, 50])
    mouth.crops[1, 300, 256, 0] = 51  # one channel of one pixel
    stage.run_one(item(mouth))
    assert network.calls == [[0.5]] and stage.pairs_interpolated == 1


def test_a_crop_is_composited_once_however_often_it_is_shown() -> None:
    tail = GreyTail()
    stage = Rife(MeanInterpolator(), tail)
    stage.run_one(item(crops([1, 2], hold=[1])))
    assert tail.composited == 2


@pytest.mark.parametrize("size", [4, 8, 16, 25])
@pytest.mark.parametrize("fps", [50, 59.94])
def test_chunks_of_any_size_give_the_same_pictures(size: int, fps: float) -> None:
    levels = np.random.default_rng(3).integers(0, 256, 34).tolist()
    hold = (0, 9, 16, 25)
    whole = shown(Rife(MeanInterpolator(), GreyTail()).run_one(item(crops(levels, hold=hold), fps=fps)))
    parts: list[int] = []
    before = None
    for first in range(0, len(levels), size):
        some = levels[first : first + size]
        now = crops(some, first, [h - first for h in hold if first <= h < first + len(some)])
        parts += shown(Rife(MeanInterpolator(), GreyTail()).run_one(item(now, before, fps)))
        before = now
    assert parts == whole


def test_sessions_share_a_call_and_bad_items_fail_alone() -> None:
    network = MeanInterpolator()
    stage = Rife(network, GreyTail(), pairs_per_call=8)
    bad = CropBatch(np.zeros((1, 8, 8, 3), np.uint8), np.zeros(1, np.bool_), "a")
    answers = stage.run(
        [
            item(crops([0, 20])),
            item(bad),
            item(replace(crops([0, 20]), avatar_id="unknown")),
            item(crops([200, 100]), fps=59.94),
        ]
    )
    assert shown(answers[0]) == [0, 10, 20]
    assert isinstance(answers[1], ShapeError) and isinstance(answers[2], InvalidInputError)
    assert shown(answers[3]) == [200, 158, 117] and len(network.calls) == 1
    with pytest.raises(ShapeError):
        stage.run_one(item(bad))


def test_no_crops_make_no_pictures() -> None:
    assert len(Rife(MeanInterpolator(), GreyTail()).run_one(item(crops([]), crops([1])))) == 0


def test_probe_sees_a_network_that_answers_nonsense() -> None:
    class Narrow(MeanInterpolator):
        def between(self, before: Sequence[torch.Tensor], after: Sequence[torch.Tensor], t: Sequence[float]) -> U8:  # type: ignore[override]
            return super().between(before, after, t)[:, :32].numpy()

    Rife(MeanInterpolator(), GreyTail()).probe()
    with pytest.raises(ShapeError, match="64"):
        Rife(Narrow(), GreyTail()).probe()


def test_the_still_tail_is_the_renderer_s() -> None:
    from pipeline.mini.registration import make_avatar
    from pipeline.mini.renderer import Renderer
    from pipeline.presenter.draw import draw_presenter
    from pipeline.stages import RenderRequest
    from pipeline.types import MotionChunk

    drawing = draw_presenter(360, 640)
    avatar: Avatar = make_avatar(drawing.rgb, drawing.landmarks)  # without an outline nothing moves around the face
    motion = np.zeros((3, 265), np.float32)
    motion[1:, 202:265] = 0.02
    renderer = Renderer(lambda _: avatar)
    request = RenderRequest(
        avatar.avatar_id, MotionChunk(motion, 4, np.array([True, False, False])), None, 25, "bt709", 2
    )
    drawn = renderer.crops(request)
    assert (drawn.first_frame, drawn.epoch, drawn.avatar_id) == (4, 2, avatar.avatar_id) and drawn.hold.tolist() == [
        1,
        0,
        0,
    ]
    network = MeanInterpolator()
    batch = Rife(network, StillTail(lambda _: avatar)).run_one(item(drawn))
    drawn_at_once = renderer.render(request)  # in the canvas's pixels, not as a crop
    for ours, theirs in (
        (batch.y_planes[0::2], drawn_at_once.y_planes),
        (batch.uv_planes[0::2], drawn_at_once.uv_planes),
    ):
        assert ours.shape == theirs.shape
        assert 10 * np.log10(255**2 / ((ours.astype(float) - theirs) ** 2).mean()) > 36
    assert len(network.calls) == 1, "the last two frames have the same motion"
