import numpy as np
import pytest

from benchmarks.quality.expression_measures import (
    CORNERS,
    INNER_BROWS,
    LEFT_EYE,
    RIGHT_EYE,
    face_curves,
    half_way,
    shift,
)


def face(turned: float = 0.0, size: float = 100.0, corner_up: float = 0.0, brow_up: float = 0.0) -> np.ndarray:
    """Landmarks (468, 2) of a face whose eyes are `size` pixels apart; lifts are in eye distances."""
    points = np.zeros((468, 2), np.float32)
    for ids, x in ((RIGHT_EYE, -0.5), (LEFT_EYE, 0.5)):
        points[ids[0]], points[ids[1]] = (x - 0.1, 0.0), (x + 0.1, 0.0)
    points[CORNERS[0]], points[CORNERS[1]] = (-0.4, 1.1 - corner_up), (0.4, 1.1 - corner_up)
    points[INNER_BROWS[0]], points[INNER_BROWS[1]] = (-0.2, -0.3 - brow_up), (0.2, -0.3 - brow_up)
    turn = np.array([[np.cos(turned), -np.sin(turned)], [np.sin(turned), np.cos(turned)]])
    return (points @ turn.T * size + 300).astype(np.float32)


@pytest.mark.parametrize("turned", [0.0, 0.3, -0.5])
@pytest.mark.parametrize("size", [40.0, 200.0])
def test_places_are_those_of_the_face_however_it_lies_in_the_picture(turned: float, size: float) -> None:
    curves = face_curves(face(turned, size, 0.02, 0.03)[None])
    assert curves.corner[0] == pytest.approx(-1.08, abs=1e-3)
    assert curves.inner_brow[0] == pytest.approx(0.33, abs=1e-3)
    assert curves.width[0] == pytest.approx(0.8, abs=1e-3)


def test_a_shift_is_measured_where_it_holds_and_half_way_between_frames() -> None:
    neutral = np.sin(np.arange(80) / 5)
    rise = np.clip((np.arange(80) - 30) / 10, 0, 1)
    found = shift(neutral + 0.02 * rise, neutral, 30, 42)
    assert found.held == pytest.approx(0.02) and found.right_sign == 1.0 and found.noise < 1e-9
    assert half_way(neutral + 0.02 * rise, neutral, 30, 42) == pytest.approx(35.0)
    wrong = shift(neutral - 0.01, neutral, 30, 42)
    assert wrong.held == pytest.approx(-0.01) and wrong.noise == pytest.approx(0.01)


def test_frames_without_a_face_count_for_nothing() -> None:
    neutral, expressed = np.zeros(60), np.where(np.arange(60) < 20, 0.0, 0.05)
    expressed[45] = np.nan
    assert shift(expressed, neutral, 20, 25).held == pytest.approx(0.05)
