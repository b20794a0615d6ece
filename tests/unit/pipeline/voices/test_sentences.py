"""Texts are cut where a speaker pauses, and nothing of them is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.errors import InvalidInputError
from pipeline.voices.sentences import (
    BREATH_PAUSE_S,
    LONGEST,
    MAX_CHARACTERS,
    PARAGRAPH_PAUSE_S,
    SENTENCE_PAUSE_S,
    SHORT_START,
    sentences,
    spoken_text,
)


def cut(text: str, soon: bool = False) -> list[str]:
    return [one.text for one in sentences(spoken_text("text", text), soon)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Good evening.", ["Good evening."]),
        ("Good evening. Here is the news!  And now?", ["Good evening.", "Here is the news!", "And now?"]),
        (
            "Mr. Smith met Dr. Jones at 9.30 a.m. in the U.S. Senate.",
            ["Mr. Smith met Dr. Jones at 9.30 a.m. in the U.S. Senate."],
        ),
        ("He paid 3.50 to J. Doe. Then he left.", ["He paid 3.50 to J. Doe.", "Then he left."]),
        ("Well... perhaps. No... Really!", ["Well... perhaps.", "No...", "Really!"]),
        ("She said \u201cstop.\u201d He did.", ["She said \u201cstop.\u201d", "He did."]),
        ("no stop at all", ["no stop at all"]),
        ("One\n\nTwo", ["One", "Two"]),
        ("\u4f60\u597d\u3002\u665a\u4e0a\u597d\uff01", ["\u4f60\u597d\u3002", "\u665a\u4e0a\u597d\uff01"]),
        ("... Hello. !!! World.", ["... Hello.", "!!! World."]),
    ],
)
def test_sentences_end_where_people_end_them(text: str, pieces: list[str]) -> None:
    assert cut(text) == pieces


def test_pauses_follow_the_text() -> None:
    found = sentences("One. Two.\nThree. " + "word, " * 80 + "end.")
    assert [one.pause_s for one in found[:3]] == [SENTENCE_PAUSE_S, PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S]
    assert found[3].pause_s == BREATH_PAUSE_S and found[-1].pause_s == PARAGRAPH_PAUSE_S


def test_a_long_sentence_is_cut_where_it_takes_breath() -> None:
    text = ", ".join(["and so it went on and on"] * 40) + "."
    pieces = cut(text)
    assert len(pieces) > 3 and all(len(one) <= LONGEST for one in pieces)
    assert all(one.endswith((",", ".")) for one in pieces) and " ".join(pieces) == text
    assert all(len(one) <= LONGEST for one in cut("x" * 1000))


def test_the_first_piece_is_short_only_where_somebody_waits() -> None:
    long = "In the early hours of this morning, long before anybody was awake, the river left its bed again."
    text = f"{long} It came back."
    assert cut(text) == [long, "It came back."]
    first, second, last = cut(text, soon=True)
    assert (first, last) == ("In the early hours of this morning,", "It came back."), "at the first comma"
    assert SHORT_START[0] <= len(first) <= SHORT_START[1] and f"{first} {second}" == long
    assert cut("Yes, we can.", soon=True) == ["Yes, we can."]
    text = "Prices fell again last month, for the third time, in a row."
    assert cut(text, soon=True) == ["Prices fell again last month,", "for the third time, in a row."], (
        "at the first comma"
    )


@given(st.text(st.sampled_from("ab .,;:!?\n'\"\u201d)1\u3002-\u2014"), max_size=900))
def test_no_word_is_lost_or_changed(text: str) -> None:
    if not any(one.isalnum() for one in text):
        with pytest.raises(InvalidInputError, match="text: got"):
            spoken_text("text", text)
        return
    whole = "".join(one for one in text if one.isalnum())
    for soon in (False, True):
        pieces = cut(text, soon)
        assert "".join(one for one in "".join(pieces) if one.isalnum()) == whole
        assert all(len(one) <= LONGEST and any(map(str.isalnum, one)) for one in pieces)


def test_text_without_words_and_too_long_text_are_refused_by_their_field() -> None:
    for text in ("", "   ", "...", "\x00\x01"):
        with pytest.raises(InvalidInputError) as refused:
            spoken_text("prompt", text)
        assert refused.value.field == "prompt" and "letter" not in str(refused.value)
    with pytest.raises(InvalidInputError, match=f"--text: got {MAX_CHARACTERS + 1} characters"):
        spoken_text("--text", "a" * (MAX_CHARACTERS + 1))
    assert spoken_text("text", "  cafe\u0301\x07\u200b bar \n baz ") == "caf\u00e9   bar \n baz"
