"""Who moves: head and hair with the face, shoulders less, the chest by breath, the background not at all."""

import numpy as np
import pytest

from engines.face import topology
from engines.mini.face_frame import build_frame
from engines.mini.outline import BAND_PX, SHOULDERS_FOLLOW, Outline, Shares, make_outline, one_person
from kernels.arrays import F64, U8
from kernels.errors import ShapeError
from tests.support.mesh import landmarks

FRAME = build_frame(landmarks())
CHIN: F64 = FRAME.points[topology.CHIN]


def person() -> U8:
    """A head and a trunk on a picture of 900 x 900, crop pixel (0, 0) at (200, 200)."""
    matte = np.zeros((900, 900), np.uint8)
    matte[200:700, 330:590] = 255
    matte[640:, 120:780] = 255
    return matte


def outline() -> Outline:
    return make_outline(person(), (-200.0, -200.0), 1.0)


def at(*places: tuple[float, float]) -> Shares:
    return outline().shares(FRAME, np.array(places, np.float64))


def test_head_and_hair_follow_wholly_and_the_background_not_at_all() -> None:
    nose, hat = FRAME.points[4], (260.0, 20.0)
    shares = at(tuple(nose), hat, (40.0, 100.0))
    np.testing.assert_allclose(shares.head, [1, 1, 0], atol=1e-6)
    assert shares.shoulders.max() == 0 and shares.breath[2] == 0


def test_nothing_moves_outside_the_band() -> None:
    edge = 130.0  # crop x of the head's left edge
    shares = at((edge - BAND_PX - 2, 100.0), (edge - BAND_PX / 2, 100.0), (edge + 3, 100.0))
    assert shares.head[0] == 0 and 0.2 < shares.head[1] < 0.8 and shares.head[2] == 1


def test_the_neck_gives_way_and_shoulders_follow_less() -> None:
    below = [tuple(CHIN + (0.0, k * FRAME.face_height)) for k in (0.0, 0.3, 0.7, 1.2, 1.7)]
    shares = at(*below)
    assert (np.diff(shares.head[:3]) < 0).all() and shares.head[2] == 0
    assert shares.shoulders[2] == pytest.approx(SHOULDERS_FOLLOW, abs=0.02)
    assert shares.shoulders[4] == 0 and shares.breath[4] == 0
    assert shares.breath[0] == 0 and shares.breath[2] > 0.95


def test_an_outline_of_the_whole_picture_is_no_background() -> None:
    shares = make_outline(np.full((900, 900), 255, np.uint8), (-200.0, -200.0), 1.0).shares(
        FRAME, np.array([[-190.0, 0.0]])
    )
    assert shares.head[0] == 1


def test_scale_and_origin_place_the_outline() -> None:
    fine = make_outline(np.repeat(np.repeat(person(), 2, 0), 2, 1), (-200.0, -200.0), 2.0)
    places = np.array([[150.0, 60.0], [118.0, 60.0], [300.0, 60.0]])
    expected, found = outline().shares(FRAME, places), fine.shares(FRAME, places)
    np.testing.assert_allclose(found.head[[0, 2]], expected.head[[0, 2]], atol=0.02)
    assert found.head[1] < expected.head[1], "the band is counted in canvas pixels"


def test_somebody_else_in_the_picture_is_left_out() -> None:
    matte = person()
    matte[300:500, 820:880] = 255  # a planted second person
    matte[400:420, 400:440] = 0  # a planted hole
    kept = one_person(matte, (460.0, 400.0))
    assert kept[300:500, 820:880].max() == 0
    assert kept[410, 420] >= 128 and kept[450, 450] == 255


def test_a_face_that_is_nobody_has_no_outline() -> None:
    assert one_person(person(), (10.0, 10.0)).max() == 0


def test_soft_edges_stay_soft() -> None:
    matte = person()
    matte[200:700, 328:330] = 90
    assert (one_person(matte, (460.0, 400.0))[300:600, 328:330] == 90).all()


@pytest.mark.parametrize(
    "matte", [np.zeros((4, 4), np.float32), np.zeros((4, 4, 3), np.uint8), np.zeros((0, 4), np.uint8)]
)
def test_a_wrong_matte_is_refused(matte: U8) -> None:
    with pytest.raises(ShapeError, match="matte"):
        make_outline(matte, (0.0, 0.0), 1.0)
