"""Times of the words of a spoken sentence, from the voice, or from the lengths of the words where it does not tell."""

from __future__ import annotations

from pipeline.voices.voice import WordTime
from pipeline.voices.whole_text import SaidSentence


def word_times(said: SaidSentence) -> tuple[WordTime, ...]:
    """Words and when they are heard; without times of its own, a word lasts as long as its share of the sentence's characters."""
    if said.words:
        return said.words
    words = said.text.split()
    each_s = (said.stop_s - said.start_s) / max(sum(len(word) + 1 for word in words), 1)
    times, place_s = [], said.start_s
    for word in words:
        stop_s = place_s + (len(word) + 1) * each_s
        times.append(WordTime(word, place_s, stop_s))
        place_s = stop_s
    return tuple(times)
