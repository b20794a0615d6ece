import numpy as np
import pytest

from kernels.errors import InvalidInputError
from pipeline.expression.looks import ENERGY, EXPRESSIONS, GAZE, MOST_KEPT, NEUTRAL_FACE, Look, Looks

HAPPY, SAD = EXPRESSIONS.index("happy"), EXPRESSIONS.index("sad")


def test_a_look_is_half_there_after_half_of_its_rise_and_holds() -> None:
    values = Looks((Look(1.0, "happy", 0.6, rise_s=0.4),)).values(0, 100)[:, HAPPY]
    assert (values[:26] == 0).all()
    assert values[30] == pytest.approx(0.3)  # 1.2 s
    assert values[35:] == pytest.approx(0.6)
    assert (np.diff(values) >= -1e-7).all()


def test_one_look_takes_over_from_another_without_a_jump() -> None:
    values = Looks((Look(0.0, "happy", rise_s=0.4), Look(0.2, "sad", rise_s=0.4))).values(0, 30)
    assert np.abs(np.diff(values, axis=0)).max() < 0.2
    assert values[-1, HAPPY] == 0
    assert values[-1, SAD] == 1


def test_parts_that_a_look_does_not_name_stay() -> None:
    values = Looks((Look(0.0, "happy", 0.5, rise_s=0.0), Look(1.0, gaze=(-1.0, 0.5)), Look(2.0, energy=0.0))).values(
        100, 1
    )[0]
    assert values[HAPPY] == 0.5
    assert values[GAZE] == pytest.approx([-1.0, 0.5])
    assert values[ENERGY] == -1.0


def test_any_stretch_of_frames_is_the_same_alone() -> None:
    looks = Looks((Look(0.3, "angry", 0.7), Look(0.5, "neutral", rise_s=1.0), Look(2.0, energy=0.4)))
    whole = looks.values(-10, 90)
    np.testing.assert_array_equal(np.concatenate([looks.values(-10 + i, 1) for i in range(90)]), whole)


def test_a_face_is_at_rest_when_all_has_gone_and_nothing_comes() -> None:
    looks = Looks((Look(0.0, "happy"), Look(2.0, "neutral", rise_s=0.4)))
    assert not looks.at_rest(0)
    assert not looks.at_rest(59)  # 2.36 s
    assert looks.at_rest(60)
    assert NEUTRAL_FACE.at_rest(-5)
    assert not Looks((Look(9.0, "happy"),)).at_rest(0)


def test_a_change_drops_what_was_planned_and_keeps_what_is_shown() -> None:
    before = Looks((Look(0.0, "happy", rise_s=0.0), Look(1.0, energy=0.5, rise_s=0.0), Look(5.0, "angry")))
    after = before.then(Looks((Look(0.0, "sad"), Look(1.0, "neutral"))), 3.0, 3.0)
    np.testing.assert_array_equal(after.values(0, 76), before.values(0, 76))
    assert [look.at_s for look in after.looks] == [0.0, 1.0, 3.0, 4.0]
    assert after.values(130, 1)[0, : len(EXPRESSIONS)].sum() == 0
    assert after.values(130, 1)[0, ENERGY] == -0.5


def test_looks_of_a_long_session_do_not_pile_up() -> None:
    looks = NEUTRAL_FACE
    for second in range(500):
        more = Looks((Look(0.0, EXPRESSIONS[second % 8], 0.5), Look(0.5, gaze=(0.1, 0.0))))
        looks = looks.then(more, float(second), float(second))
    assert len(looks.looks) < 6


def test_changes_that_follow_each_other_before_they_have_come_do_not_pile_up_and_nothing_jumps() -> None:
    whole = kept = NEUTRAL_FACE
    for number in range(100):
        at_s = 0.12 * number
        parts = (Look(expression=EXPRESSIONS[number % 8]), Look(gaze=(number % 3 - 1.0, 0.5)), Look(energy=number % 2))
        more = Looks((parts[number % 3],)) if number % 10 else Looks(parts)
        before, whole, kept = kept, whole.then(more, at_s, -1.0), kept.then(more, at_s, at_s)
        first = int(np.ceil(at_s * 25))
        np.testing.assert_allclose(kept.values(first, 50), whole.values(first, 50), atol=1e-6)
        np.testing.assert_allclose(kept.values(first, 1), before.values(first, 1), atol=0.15)
    assert len(whole.looks) == 120
    assert len(kept.looks) < 16


def test_what_is_planned_far_ahead_leaves_what_is_shown_until_then() -> None:
    shown = Looks((Look(0.0, "happy"), Look(5.0, "sad")))
    planned = shown.then(Looks((Look(0.0, "angry"),)), 10.0, 2.0)
    np.testing.assert_array_equal(planned.values(50, 200), shown.values(50, 200))


def test_more_changes_at_once_than_a_face_keeps_are_refused() -> None:
    looks = NEUTRAL_FACE
    for number in range(MOST_KEPT):
        looks = looks.then(Looks((Look(gaze=(0.0, 0.0), rise_s=5.0),)), 0.001 * number, 0.0)
    with pytest.raises(InvalidInputError, match=r"expressions.*513.*at most 512"):
        looks.then(Looks((Look(gaze=(0.0, 0.0)),)), 1.0, 1.0)
    assert len(looks.then(Looks((Look(gaze=(0.0, 0.0)),)), 7.0, 7.0).looks) == 2
