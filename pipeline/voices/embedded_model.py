"""The embedded English voice: the network of the package `hibari-tts`, asked for its sound and for when each word is heard.

The package's own interface gives no times, but the network computes them: the tensor `DURATIONS` holds how long each phoneme
lasts, in steps of 25 ms. It is made an output by adding bytes to the model's file: a protocol buffer that is followed by another
one of the same message reads as both merged, so `ModelProto{graph{output{name}}}` behind the file adds one output to its graph
(protobuf's encoding, "Last One Wins", and onnx.proto: ModelProto.graph = 7, GraphProto.output = 12, ValueInfoProto.name = 1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

import numpy as np

from kernels.arrays import F32
from pipeline.voices.errors import VoiceFailedError, VoiceMissingError
from pipeline.voices.voice import WordTime

RATE_HZ: Final = 24_000
STEP_S: Final = 0.025
"""Seconds of one step of the network's durations."""
AHEAD_S: Final = 0.035
"""Seconds by which the sound comes before the place that the durations give it.

Less this, sentences begin 8 ms before they are loud (median of 20, -65 to 35 ms); a word before a pause ends some 0.25 s late:
its last sound is given a part of the silence.
"""
GAIN: Final = 1.4
"""3 dB: brings the voice from -26 to -23 LUFS (EBU R128, mean of ten sentences); its loudest peak stays below full scale."""
DURATIONS: Final = "/Clip_output_0"
MOST_PHONEMES: Final = 400
"""Phonemes that the network is given at once; it was trained on no longer ones."""
SEED: Final = 0
"""Seed of the noise in breath and consonants: the same text gives the same sound."""
SPECTRA: Final = 6
"""Outputs of the network that become sound; the durations come behind them."""
_LINK: Final = re.compile(r"(\[[^\]]+\]\([^)]*\))")
_OVERLONG: Final = re.compile(r"(\d{15}(?=\d)|\S{40}(?=\S))")
MARKS: Final = ';:,.!?\u2014\u2026"\u201c\u201d() '


@dataclass(frozen=True, eq=False)
class SaidPhonemes:
    """What the network made of a sentence.

    Attributes:
        pcm: float32 (n,), 24 kHz, -1..1.
        words: When each word is heard.
    """

    pcm: F32
    words: tuple[WordTime, ...]


class EmbeddedModel:
    """Loads the network and its dictionary, some 0.7 s and 80 MB. Not for several threads at once.

    Raises:
        VoiceMissingError: The package is not installed.
        VoiceFailedError: It cannot be loaded.
    """

    def __init__(self) -> None:
        try:
            from hibari import Hibari, dsp
            from hibari.g2p.normalize import normalize
            from hibari.voices import DEFAULT, voice_path
        except ImportError as error:
            raise VoiceMissingError("hibari-tts") from error
        try:
            model = Path(voice_path(DEFAULT, download_missing=False)).read_bytes() + _one_more_output(DURATIONS)
            self._speech: Any = Hibari(DEFAULT, model=model, threads=1)
            self._dictionary: Any = self._speech.g2p
        except (OSError, RuntimeError, ValueError) as error:
            raise VoiceFailedError(f"the embedded voice cannot be loaded ({type(error).__name__})") from error
        self._normalize, self._wave = normalize, dsp.synth

    def say(self, sentence: str) -> SaidPhonemes:
        """Speak one sentence; no samples where it holds nothing that English has a sound for.

        Raises:
            VoiceFailedError: The network broke.
        """
        try:
            return self._said(sentence)
        except (RuntimeError, ValueError, LookupError) as error:  # onnxruntime's own errors are RuntimeErrors
            raise VoiceFailedError(f"the embedded voice broke ({type(error).__name__})") from error

    def _said(self, sentence: str) -> SaidPhonemes:
        from hibari.g2p import LINK_RE

        groups = self._groups(sentence)
        pcm, times = self._sound([phonemes for _, phonemes in groups])
        spoken = [(text, start_s, stop_s) for (text, _), (start_s, stop_s) in zip(groups, times, strict=True)]
        written = LINK_RE.sub(r"\1", sentence).split()
        return SaidPhonemes(np.clip(pcm * np.float32(GAIN), -1.0, 1.0), _timed(written, spoken))

    def _groups(self, sentence: str) -> list[tuple[str, str]]:
        """Words as they are read out, and their phonemes; those between two spaces are one."""
        tokens = self._dictionary.phonemize_tokens(self._dictionary.tokenize(self._normalize(_spaced(sentence))))
        groups: list[tuple[str, str]] = []
        text = phonemes = ""
        for token in tokens:
            text, phonemes = text + token.text, phonemes + (token.phonemes or "")
            if token.whitespace:
                groups.append((text, phonemes))
                text = phonemes = ""
        return [*groups, (text, phonemes)] if text else groups

    def _sound(self, groups: list[str]) -> tuple[F32, list[tuple[float, float]]]:
        """Samples of groups of phonemes, and when each begins and ends, in seconds."""
        times: list[tuple[float, float]] = []
        parts: list[F32] = []
        noise = np.random.default_rng(SEED)
        length_s, first = 0.0, 0
        while first < len(groups):
            ids, places, first_of_next = self._ids(groups, first)
            found = self._speech.sess.run(None, {"ids": np.array([ids]), "speed": np.ones(1, np.float32)})
            passed = np.concatenate([[0.0], np.cumsum(found[SPECTRA], dtype=np.float64)]) * STEP_S
            heard = length_s + np.maximum(passed - AHEAD_S, 0.0)
            times += [(float(heard[start]), float(heard[stop])) for start, stop in places]
            if len(ids) > 2:
                parts.append(np.asarray(self._wave(*(one[0] for one in found[:SPECTRA]), noise), np.float32))
                length_s += len(parts[-1]) / RATE_HZ
            first = first_of_next
        return np.concatenate([np.zeros(0, np.float32), *parts]), times

    def _ids(self, groups: list[str], first: int) -> tuple[list[int], list[tuple[int, int]], int]:
        """Network input of as many groups as fit, the part of it that says each group, and the first group that is left.

        Marks at a group's end are pauses, which are no part of its word.
        """
        vocabulary = self._speech.vocab
        ids, places, index = [0], [], first
        while index < len(groups):
            own = [vocabulary[one] for one in groups[index] if one in vocabulary]
            if index > first and len(ids) + len(own) > MOST_PHONEMES:
                break
            if len(ids) > 1 and own:
                ids.append(vocabulary[" "])
            own = own[:MOST_PHONEMES]
            said = len(groups[index].rstrip(MARKS)) if len(own) == len(groups[index]) else len(own)
            places.append((len(ids), len(ids) + min(said, len(own))))
            ids += own
            index += 1
        return [*ids, 0], places, index


def _spaced(sentence: str) -> str:
    """The sentence with spaces in what is longer than any word; the dictionary takes time that grows with the square of a word."""
    pieces = _LINK.split(sentence)
    pieces[::2] = [_OVERLONG.sub(r"\1 ", piece) for piece in pieces[::2]]  # what lies between pronunciations
    return "".join(pieces)


def _one_more_output(name: str) -> bytes:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    return field(7, field(12, field(1, name.encode())))


def _timed(written: list[str], spoken: list[tuple[str, float, float]]) -> tuple[WordTime, ...]:
    """Times of words as they are written, from those of words as they are read out ("9:30" is read "nine thirty").

    What is equal in both shares its time; a stretch that differs is divided among its written words by their length.
    """
    same = SequenceMatcher(
        None, [_plain(word) for word in written], [_plain(text) for text, _, _ in spoken], autojunk=False
    )
    found: list[WordTime] = []
    for _, first, last, first_read, last_read in same.get_opcodes():
        words = written[first:last]
        if not words:
            continue
        if last - first == last_read - first_read:
            found += [
                WordTime(word, *times) for word, (_, *times) in zip(words, spoken[first_read:last_read], strict=True)
            ]
            continue
        start_s = spoken[first_read][1] if first_read < last_read else (found[-1].stop_s if found else 0.0)
        stop_s = spoken[last_read - 1][2] if first_read < last_read else start_s
        letters = np.cumsum([0, *(len(word) for word in words)])
        edges = start_s + (stop_s - start_s) * letters / letters[-1]
        found += [WordTime(word, float(edges[at]), float(edges[at + 1])) for at, word in enumerate(words)]
    return tuple(found)


def _plain(word: str) -> str:
    return "".join(one for one in word.lower() if one.isalnum())
