"""An answer that is still being written, cut into sentences."""

from __future__ import annotations

import pytest

from pipeline.talk.sentence_stream import SentenceStream

ANSWER = "Good evening, and welcome. Dr. Smith is at 9.30 with the news! What else? Nothing, I am afraid"


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_sentences_come_out_whole_and_as_soon_as_the_next_one_begins(size: int) -> None:
    stream, found = SentenceStream(), []
    for at in range(0, len(ANSWER), size):
        found += stream.push(ANSWER[at : at + size])
    assert found == ["Good evening, and welcome.", "Dr. Smith is at 9.30 with the news!", "What else?"]
    assert stream.end() == ["Nothing, I am afraid"] and stream.end() == []


def test_what_cannot_be_spoken_is_left_out() -> None:
    stream = SentenceStream()
    said = stream.push("## **Hello**\n\n- `one`\x00 \n\n---\n\n\U0001f600 \U0001f600\n\n")
    said += stream.push("See https://example.org/x?y=1 now.\n\n***\n\n") + stream.end()
    assert said == ["Hello", "- one", "See   now."]


def test_a_sentence_without_an_end_is_cut_and_one_without_words_is_forgotten() -> None:
    stream = SentenceStream()
    said = stream.push("word " * 200) + stream.end()
    assert len(said) > 3 and all(len(one) <= 300 for one in said) and " ".join(said).count("word") == 200
    for _ in range(1000):
        assert stream.push("... --- \U0001f600 ") == []
    assert len(stream._rest) <= 300
