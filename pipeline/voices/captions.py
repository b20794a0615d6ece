"""Captions of a spoken text as WebVTT, from the times of its words, or of its sentences where words have none.

The form is W3C's WebVTT. Lines hold at most 42 characters and a caption two lines, as broadcasters' subtitle guides ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.voices.voice import WordTime
from pipeline.voices.whole_text import SaidSentence
from pipeline.voices.word_times import word_times

LINE_CHARACTERS: Final = 42
LINES: Final = 2


@dataclass(frozen=True)
class Cue:
    """A caption.

    Attributes:
        start_s: Seconds from the beginning of the clip to its appearance.
        stop_s: Seconds to its end, > `start_s`.
        text: One or two lines.
    """

    start_s: float
    stop_s: float
    text: str


def cues_of(said: Sequence[SaidSentence]) -> tuple[Cue, ...]:
    """Captions of sentences: each sentence alone, in as many captions as it needs."""
    return tuple(cue for one in said for cue in _cues(one))


def webvtt(cues: Sequence[Cue]) -> str:
    """Captions as the text of a WebVTT file."""
    blocks = [f"{_time(cue.start_s)} --> {_time(cue.stop_s)}\n{_escaped(cue.text)}\n" for cue in cues]
    return "\n".join(["WEBVTT\n", *blocks])


def _cues(said: SaidSentence) -> Iterator[Cue]:
    words = word_times(said)
    lines: list[list[WordTime]] = []
    for word in words:
        if lines and len(_text(lines[-1])) + 1 + len(word.text) <= LINE_CHARACTERS:
            lines[-1].append(word)
        else:
            lines.append([word])
    for first in range(0, len(lines), LINES):
        together = lines[first : first + LINES]
        last = first + LINES >= len(lines)
        start_s = said.start_s if first == 0 else together[0][0].start_s
        stop_s = said.stop_s if last else lines[first + LINES][0].start_s
        if stop_s > start_s:
            yield Cue(start_s, stop_s, "\n".join(map(_text, together)))


def _text(words: Sequence[WordTime]) -> str:
    return " ".join(word.text for word in words)


def _time(seconds: float) -> str:
    """`HH:MM:SS.mmm`."""
    whole = max(round(seconds * 1000), 0)
    return f"{whole // 3_600_000:02d}:{whole // 60_000 % 60:02d}:{whole // 1000 % 60:02d}.{whole % 1000:03d}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
