"""Text to be spoken: fixed sentences, templates with slots, numbers, dates, and word salads, in several languages.

All texts were written for this project (`training/texts`). The held-out sentences live in a file of their own and are never
generated; everything is a function of the generator that is passed in.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

_FOLDER: Final = Path(__file__).resolve().parent / "texts"
_SLOT: Final = re.compile(r"\{(\w+)\}")
_ORDINALS: Final = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "twelfth",
)

LANGUAGES: Final = ("de", "fr", "es", "it", "pt", "pl", "ru", "nl", "cmn", "cs", "fi")
"""Languages other than English that have sentences."""


@cache
def lines(name: str) -> tuple[str, ...]:
    """Non-empty lines of `texts/<name>.txt`."""
    text = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return tuple(line.strip() for line in text.splitlines() if line.strip())


@cache
def _slots() -> dict[str, tuple[str, ...]]:
    raw: dict[str, list[str]] = json.loads((_FOLDER / "slots.json").read_text(encoding="utf-8"))
    return {name: tuple(words) for name, words in raw.items()}


def heldout() -> tuple[str, ...]:
    """The evaluation sentences (40), never trained on."""
    return lines("en_heldout")


def _pick(words: tuple[str, ...], generator: np.random.Generator) -> str:
    return words[int(generator.integers(len(words)))]


def _fill(slot: str, generator: np.random.Generator) -> str:
    """Draw a value for a slot; numbers are written in digits half of the time and left to the synthesiser to read."""
    if slot in _slots():
        return _pick(_slots()[slot], generator)
    small = int(generator.integers(2, 100))
    if slot == "number":
        return str(small)
    if slot == "digit":
        return str(int(generator.integers(10)))
    if slot == "bignumber":
        return str(int(10 ** generator.uniform(2, 6)))
    if slot == "year":
        return str(int(generator.integers(1850, 2040)))
    if slot == "percent":
        return f"{generator.uniform(0.5, 60):.1f} percent" if generator.random() < 0.5 else f"{small} percent"
    if slot == "money":
        return f"${small}.{int(generator.integers(10, 99))}" if generator.random() < 0.5 else f"{small} pounds"
    if slot == "clock":
        hour, minute = int(generator.integers(1, 13)), int(generator.integers(10, 60))
        return f"{hour}:{minute}" if generator.random() < 0.6 else f"half past {hour}"
    if slot == "ordinal":
        return _pick(_ORDINALS, generator)
    if slot == "date":
        return f"{_pick(_slots()['month'], generator)} {int(generator.integers(1, 29))}"
    raise KeyError(slot)


def english(generator: np.random.Generator) -> str:
    """Draw an English text: a fixed sentence, a filled template, or a salad of words; sometimes two in a row."""
    kind = generator.random()
    if kind < 0.25:
        text = _pick(lines("en_sentences"), generator)
    elif kind < 0.88:
        text = _SLOT.sub(lambda match: _fill(match.group(1), generator), _pick(lines("en_templates"), generator))
    else:
        text = salad("en", generator)
    if len(text) < 60 and generator.random() < 0.5:
        text = f"{text} {english(generator)}"
    return text[0].upper() + text[1:]


def foreign(language: str, generator: np.random.Generator) -> str:
    """Draw a text in another language: a sentence, or a salad of its words."""
    return _pick(lines(language), generator) if generator.random() < 0.45 else salad(language, generator)


@cache
def _vocabulary(language: str) -> tuple[str, ...]:
    if language == "en":
        slots = _slots()
        names = ("noun", "plural", "adj", "verb", "pastverb", "adverb", "food", "word", "city")
        words = [word for name in names for word in slots[name]]
        words += " ".join(lines("en_sentences")).split()
    else:
        words = " ".join(lines(language)).split()
    return tuple(sorted({word.strip(".,;:!?¿¡«»").lower() for word in words} - {""}))


def salad(language: str, generator: np.random.Generator) -> str:
    """Random words of the language, with random punctuation: sound sequences that sentences do not have."""
    words = [_pick(_vocabulary(language), generator) for _ in range(int(generator.integers(3, 11)))]
    marks = [", " if generator.random() < 0.15 else " " for _ in words[:-1]] + [_pick((".", ".", "?", "!"), generator)]
    return "".join(word + mark for word, mark in zip(words, marks, strict=True))


def draw(generator: np.random.Generator, language: str = "en") -> str:
    """Draw a training text, which is never one of the held-out sentences."""
    while True:
        text = english(generator) if language == "en" else foreign(language, generator)
        if text not in heldout():
            return text
