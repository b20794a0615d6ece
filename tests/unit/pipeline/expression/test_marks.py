import pytest

from kernels.errors import InvalidInputError
from pipeline.expression.looks import Look
from pipeline.expression.marks import take_marks, timed
from pipeline.voices.voice import WordTime
from pipeline.voices.whole_text import SaidSentence


def test_marks_are_taken_out_and_count_words() -> None:
    marked = take_marks("[happy] Good evening. We [Sad 0.5] are sorry [1] - [look left] so sorry. [neutral]")
    assert marked.text == "Good evening. We are sorry [1] - so sorry."
    assert [(mark.word, mark.look.expression, mark.look.strength, mark.look.gaze) for mark in marked.marks] == [
        (0, "happy", 1.0, None), (3, "sad", 0.5, None), (6, None, 1.0, (-1.0, 0.0)), (8, "neutral", 1.0, None),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["He [laughs] goes.", "See [look here].", "[happy 0.5 now] Well.", "no marks"])
def test_other_brackets_are_text(text: str) -> None:
    assert take_marks(text).text == text and not take_marks(text).marks


def test_a_strength_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInputError) as refused:
        take_marks("[happy 3] Well.")
    assert refused.value.field == "strength"


def test_marks_come_with_their_words() -> None:
    said = (
        SaidSentence("Good evening.", 0.0, 1.0, (WordTime("Good", 0.1, 0.4), WordTime("evening.", 0.4, 1.0))),
        SaidSentence("We are - sorry.", 1.3, 3.3),
    )
    marked = take_marks("Good [happy] evening. [sad] We are - [angry] sorry. [neutral]")
    assert timed(marked.marks, said).looks == (
        Look(0.4, "happy"), Look(1.3, "sad"), Look(pytest.approx(2.425, abs=0.3), "angry"), Look(3.3, "neutral"),
    )  # fmt: skip
