"""A text cut into sentences that are spoken one after the other, so that the first one sounds while others are made."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kernels.errors import InvalidInputError

MAX_CHARACTERS: Final = 10_000
"""Characters of one text: some eleven minutes of speech."""
LONGEST: Final = 300
"""Characters of a sentence; a longer one is cut where it takes breath."""
SHORT_START: Final = (16, 70)
"""Fewest and most characters of the first piece, where the first sound matters."""
LONG_START: Final = 45
"""Characters of a first sentence that is cut there: the embedded voice makes as many in 25 ms."""
SENTENCE_PAUSE_S: Final = 0.3
PARAGRAPH_PAUSE_S: Final = 0.6
BREATH_PAUSE_S: Final = 0.1

_END: Final = re.compile(r"[.!?\u2026]+[\"'\u201d\u2019)\]]*(?=\s)|[\u3002\uff01\uff1f]+[\u300d\u300f]*")
_BREATH: Final = re.compile(r"[,;:\u2014\u2013][\"'\u201d\u2019)\]]*\s|\s[\u2014\u2013-]\s|[\uff0c\u3001\uff1b]")
_WORD: Final = re.compile(r"[^\W_]")
_NOT_SPACE: Final = re.compile(r"\S")
LONGEST_ABBREVIATION: Final = 24
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(\"'])(?:Mr|Mrs|Ms|Dr|Prof|St|Sen|Rep|Gov|Gen|Lt|Col|Sgt|Capt|Rev|Hon|Jr|Sr|vs|etc|approx|No|Fig|Inc|Ltd|Co|Corp|"
    r"[A-Z]|(?:[A-Za-z]\.)+[A-Za-z])\.$"
)


@dataclass(frozen=True)
class Sentence:
    """A piece of a text that is spoken at once.

    Attributes:
        text: The words, with their punctuation; never empty.
        pause_s: Seconds of silence after it.
    """

    text: str
    pause_s: float


def spoken_text(field: str, text: str) -> str:
    """A text that can be spoken: trimmed, composed (Unicode NFC), control characters become spaces.

    Args:
        field: Name of the field or flag, for the error.
        text: What came.

    Raises:
        InvalidInputError: It holds no letter and no digit, or more than `MAX_CHARACTERS` characters.
    """
    allowed = f"text with words, at most {MAX_CHARACTERS} characters"
    if len(text) > MAX_CHARACTERS:
        raise InvalidInputError(field, f"{len(text)} characters", allowed)
    composed = unicodedata.normalize("NFC", text)
    clean = "".join(" " if unicodedata.category(one) in ("Cc", "Cf", "Cs") and one != "\n" else one for one in composed)
    if not any(one.isalnum() for one in clean):
        raise InvalidInputError(field, repr(text.strip()[:40]) if text.strip() else "no words", allowed)
    return clean.strip()


def sentences(text: str, soon: bool = False) -> list[Sentence]:
    """Cut a text where a speaker pauses.

    Args:
        text: What `spoken_text` returned.
        soon: Whether the first piece is to be short, because somebody waits for its sound.

    Returns:
        The pieces in their order; each holds a letter or a digit.
    """
    found: list[Sentence] = []
    for paragraph in re.split(r"\s*\n\s*", text):
        pieces = [piece for sentence in _sentences_of(paragraph) for piece in _breaths_of(sentence)]
        found += pieces
        if pieces:
            found[-1] = Sentence(found[-1].text, PARAGRAPH_PAUSE_S)
    if soon and found:
        found[:1] = _short_start(found[0])
    return found


def _sentences_of(paragraph: str) -> Iterator[str]:
    start = looked = 0
    words = False
    for end in _END.finditer(paragraph):
        words = words or _WORD.search(paragraph, looked, end.end()) is not None
        looked = end.end()
        if words and not _goes_on(paragraph, start, looked):
            yield paragraph[start:looked].strip()
            start, words = looked, False
    if _has_words(paragraph[start:]):
        yield paragraph[start:].strip()


def _goes_on(paragraph: str, start: int, end: int) -> bool:
    """Whether the stop at `end` ends no sentence: an abbreviation's, or dots before a word in lower case."""
    last = paragraph[max(start, end - LONGEST_ABBREVIATION) : end]
    if not last.endswith(("..", "\u2026")):
        return bool(_ABBREVIATION.search(last))
    following = _NOT_SPACE.search(paragraph, end)
    return following is not None and following.group().islower()


def _breaths_of(sentence: str) -> Iterator[Sentence]:
    """The sentence in pieces of at most `LONGEST` characters, cut after a comma, else between words, else anywhere."""
    while len(sentence) > LONGEST:
        cut = max((at.end() for at in _BREATH.finditer(sentence, 0, LONGEST)), default=0)
        if not _has_words(sentence[:cut]):
            cut = sentence.rfind(" ", 1, LONGEST) + 1 or LONGEST
        if _has_words(sentence[:cut]):
            yield Sentence(sentence[:cut].strip(), BREATH_PAUSE_S)
        sentence = sentence[cut:].strip()
    if _has_words(sentence):
        yield Sentence(sentence, SENTENCE_PAUSE_S)


def _short_start(first: Sentence) -> list[Sentence]:
    least, most = SHORT_START
    if len(first.text) <= LONG_START:
        return [first]
    cuts = [at.end() for at in _BREATH.finditer(first.text) if least <= at.end() <= most]
    cuts = [cut for cut in cuts if _has_words(first.text[:cut]) and _has_words(first.text[cut:])]
    if not cuts:
        return [first]
    return [
        Sentence(first.text[: cuts[0]].strip(), BREATH_PAUSE_S),
        Sentence(first.text[cuts[0] :].strip(), first.pause_s),
    ]


def _has_words(text: str) -> bool:
    return _WORD.search(text) is not None
