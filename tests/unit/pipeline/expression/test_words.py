from decimal import Decimal
from typing import Any

import pytest

from kernels.errors import InvalidInputError
from pipeline.expression.looks import DEFAULT_RISE_S, NEUTRAL_FACE, Look, Looks
from pipeline.expression.words import read_change, read_looks, read_timeline, write_timeline


def test_fields_are_the_look_from_the_beginning_and_the_timeline_follows() -> None:
    found = read_looks(
        {"expression": " Joy ", "strength": "0.5", "expressions": '[{"at_s": 1.5, "expression": "sad"}]'}
    )
    assert found.looks == (Look(0.0, "happy", 0.5, rise_s=0.0), Look(1.5, "sad"))


@pytest.mark.parametrize("gaze", ["left", "-1,0", [Decimal(-1), 0], [-1.0, 0.0]])
def test_a_gaze_has_a_name_or_two_numbers(gaze: Any) -> None:
    assert read_looks({"gaze": gaze}).looks[0].gaze == (-1.0, 0.0)


def test_fields_that_are_left_out_are_a_neutral_face() -> None:
    assert read_looks({"expression": "", "strength": None, "expressions": ""}) == NEUTRAL_FACE


def test_a_change_takes_its_time() -> None:
    assert read_change({"energy": 0.5}).looks == (Look(energy=0.5, rise_s=DEFAULT_RISE_S),)
    assert read_change({"expression": "fear", "rise_s": 1}).looks[0].rise_s == 1.0


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"expression": "bored"}, "expression"),
        ({"expression": 3}, "expression"),
        ({"strength": 0.5}, "strength"),
        ({"expression": "sad", "strength": 1.01}, "strength"),
        ({"expression": "sad", "strength": "much"}, "strength"),
        ({"gaze": "1,2"}, "gaze"),
        ({"gaze": [0]}, "gaze"),
        ({"energy": -0.1}, "energy"),
        ({"expressions": "{"}, "expressions"),
        ({"expressions": {"at_s": 0}}, "expressions"),
        ({"expressions": [{}]}, "expressions[0].at_s"),
        ({"expressions": [{"at_s": 0}]}, "expressions[0].expression"),
        ({"expressions": [{"at_s": 1, "gaze": "up"}, {"at_s": 0.5, "gaze": "up"}]}, "expressions[1].at_s"),
        ({"expressions": [{"at_s": 1, "emotion": "sad"}]}, "expressions[0].emotion"),
        ({"expressions": [{"at_s": 1, "expression": "sad", "rise_s": 9}]}, "expressions[0].rise_s"),
        ({"expressions": [{"at_s": 0, "gaze": "up"}] * 257}, "expressions"),
    ],
)
def test_what_cannot_be_is_refused_by_name(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_looks(values)
    assert refused.value.field == field


def test_a_change_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_change({"rise_s": 1})
    assert refused.value.field == "expression"


def test_a_written_timeline_reads_the_same() -> None:
    looks = Looks((Look(0.0, "sad", 0.25, rise_s=0.0), Look(1.0, gaze=(0.5, -0.5)), Look(2.0, energy=1.5, rise_s=2.0)))
    assert read_timeline(write_timeline(looks), "x") == looks
    assert write_timeline(NEUTRAL_FACE) == ""
