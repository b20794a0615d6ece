"""Words of an answer -> sentences, while the answer is still being written."""

from __future__ import annotations

import re
from typing import Final

from pipeline.voices.sentences import LONGEST, sentences, spoken_text

_MARKUP: Final = re.compile(r"[*`#~|\\]+")
"""Signs of Markdown, which models write though they are asked not to."""
_ADDRESS: Final = re.compile(r"https?://\S+")


class SentenceStream:
    """Cuts one answer into sentences; each is given out when the next one has begun."""

    def __init__(self) -> None:
        self._rest = ""

    def push(self, words: str) -> list[str]:
        """Take a piece of the answer and return the sentences that are whole now."""
        self._rest += words
        found = [one.text for one in sentences(self._rest)]
        if not found:
            self._rest = self._rest[-LONGEST:]
            return []
        *whole, last = found
        if whole:
            self._rest = self._rest[self._rest.rfind(last) :]
        return _cleaned(whole)

    def end(self) -> list[str]:
        """Return what is left at the end of the answer."""
        left, self._rest = [one.text for one in sentences(self._rest)], ""
        return _cleaned(left)


def _cleaned(texts: list[str]) -> list[str]:
    """What can be spoken of sentences; those without a word are left out."""
    plain = [_MARKUP.sub("", _ADDRESS.sub(" ", text)) for text in texts]
    return [spoken_text("reply", text) for text in plain if any(one.isalnum() for one in text)]
