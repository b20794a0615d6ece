"""Marks in a text: `[happy]`, `[sad 0.5]` or `[look left]` changes the face at the word that follows; a mark is not spoken.

Only names of expressions and gazes make a mark; anything else in brackets is text like any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pipeline.expression.looks import Look, Looks
from pipeline.expression.words import DIRECTIONS, is_expression, read_change
from pipeline.voices.whole_text import SaidSentence
from pipeline.voices.word_times import word_times

_MARK: Final = re.compile(r"\[\s*(look\s+)?([A-Za-z]+)(?:\s+([0-9.]+))?\s*\]\s*")
_WORD: Final = re.compile(r"[^\W_]")


@dataclass(frozen=True)
class Mark:
    """A change of the face in a text.

    Attributes:
        word: How many words of the text come before it.
        look: What the face changes to.
    """

    word: int
    look: Look


@dataclass(frozen=True)
class MarkedText:
    """A text without its marks, and they.

    Attributes:
        text: What is spoken.
        marks: In the order of the text.
    """

    text: str
    marks: tuple[Mark, ...]

    @property
    def looks(self) -> Looks:
        """What the marks ask for, whenever."""
        return Looks(tuple(mark.look for mark in self.marks))


def take_marks(text: str) -> MarkedText:
    """Take the marks out of a text.

    Raises:
        InvalidInputError: A strength that cannot be; it names `strength`.
    """
    spoken, marks, last = "", [], 0
    for found in _MARK.finditer(text):
        gaze, name, strength = found.groups()
        if gaze and name.lower() in DIRECTIONS and strength is None:
            look = read_change({"gaze": name}).looks[0]
        elif not gaze and is_expression(name):
            look = read_change({"expression": name, "strength": strength}).looks[0]
        else:
            continue
        spoken += text[last : found.start()]
        last = found.end()
        marks.append(Mark(words_of(spoken), look))
    return MarkedText((spoken + text[last:]).strip(), tuple(marks))


def words_of(text: str) -> int:
    """Number of words of a text: what stands between spaces and holds a letter or a digit."""
    return sum(1 for one in text.split() if _WORD.search(one))


def timed(marks: Sequence[Mark], said: Sequence[SaidSentence]) -> Looks:
    """Looks at the times of the words that follow the marks; behind the last word, at the end of the sound."""
    times = [word.start_s for one in said for word in word_times(one) if _WORD.search(word.text)]
    end_s = said[-1].stop_s if said else 0.0
    looks = [replace(mark.look, at_s=times[mark.word] if mark.word < len(times) else end_s) for mark in marks]
    return Looks(tuple(looks))
