"""Recordings of real people with phone timings: LibriVox readings and cards from Debian's `pocketsphinx-testdata`.

Used for measuring only, never for training. Transcripts are aligned by a real recogniser (the `pocketsphinx` package and the
US-English acoustic model inside it): words first, then phones, in frames of 10 ms.
"""

from __future__ import annotations

import importlib
import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernels.errors import InvalidInputError
from pipeline.types import SAMPLE_RATE_HZ
from training.phones import SILENCE, Phone, from_arpabet, split, tidy
from training.utterance import SynthesisError, Utterance

DEFAULT_FOLDER: Final = Path("/usr/share/pocketsphinx/test/data")
FRAME_S: Final = 0.010
PAUSE_MIN_S: Final = 0.10
"""The recogniser puts short pauses into the phones beside them; a quiet stretch this long becomes silence again."""
_LINE: Final = re.compile(r"<s>\s*(.*?)\s*</s>\s*\((.+)\)")
_SETS: Final = {"librivox": "transcription", "cards": "cards.transcription"}


def transcripts(folder: Path = DEFAULT_FOLDER, names: tuple[str, ...] = ("librivox",)) -> Iterator[tuple[Path, str]]:
    """Recordings and what is said in them.

    Args:
        folder: The test data of pocketsphinx.
        names: `librivox` (five sentences of a novel), `cards` (short commands of another speaker).

    Raises:
        InvalidInputError: The folder lacks the data; says which package has it.
    """
    for name in names:
        listing = folder / name / _SETS[name]
        if not listing.is_file():
            raise InvalidInputError(
                "real_speech", str(folder), "a folder with pocketsphinx test data",
                f"no {listing}: install Debian's pocketsphinx-testdata or name its folder",
            )  # fmt: skip
        for line in listing.read_text(encoding="utf-8").splitlines():
            found = _LINE.match(line.strip())
            if found:
                yield folder / name / f"{found.group(2)}.wav", found.group(1)


def read_wav(path: Path) -> NDArray[np.int16]:
    """Samples of a mono 16-bit 16 kHz wav file."""
    with wave.open(str(path)) as reader:
        kind = (reader.getnchannels(), reader.getsampwidth(), reader.getframerate())
        if kind != (1, 2, SAMPLE_RATE_HZ):
            raise InvalidInputError(str(path), str(kind), "mono, 16 bit, 16000 Hz")
        return np.frombuffer(reader.readframes(reader.getnframes()), np.int16)


def align(pcm: NDArray[np.int16], text: str) -> list[Phone]:
    """Phone timings of a transcript.

    Args:
        pcm: int16 (n,), 16 kHz.
        text: The words in lower case, without punctuation; all must be in the recogniser's dictionary.

    Returns:
        Canonical phones that tile the audio.

    Raises:
        SynthesisError: The recogniser is not installed, knows a word not, or could not fit the text to the sound.
    """
    try:
        pocketsphinx: Any = importlib.import_module("pocketsphinx")
    except ImportError as error:
        raise SynthesisError("the pocketsphinx package is not installed") from error
    decoder: Any = pocketsphinx.Decoder(lm=None, loglevel="FATAL", samprate=SAMPLE_RATE_HZ)
    unknown = [word for word in text.split() if decoder.lookup_word(word) is None]
    if unknown:
        raise SynthesisError(f"words the recogniser does not know: {' '.join(unknown)}")
    decoder.set_align_text(text)
    _decode(decoder, pcm)
    if decoder.hyp() is None:
        raise SynthesisError(f"the text does not fit the recording: {text[:60]}")
    decoder.set_alignment()
    _decode(decoder, pcm)
    phones: list[Phone] = []
    for word in decoder.get_alignment():
        for part in word:
            start = part.start * FRAME_S
            symbols = (SILENCE,) if word.name.startswith("<") else from_arpabet(part.name)
            phones.extend(split(symbols, start, start + part.duration * FRAME_S))
    return tidy(_give_back_pauses(phones, pcm), len(pcm) / SAMPLE_RATE_HZ)


def _give_back_pauses(phones: list[Phone], pcm: NDArray[np.int16]) -> list[Phone]:
    """Cut quiet stretches out of phones that are too long to be one sound."""
    step = round(FRAME_S * SAMPLE_RATE_HZ)
    frames = pcm[: len(pcm) // step * step].astype(np.float64).reshape(-1, step)
    level = 10 * np.log10(np.square(frames).mean(1) + 1.0)
    floor, loud = np.percentile(level, (5, 95))
    quiet = level < floor + 0.3 * (loud - floor)
    out: list[Phone] = []
    for phone in phones:
        a, b = round(phone.start_s / FRAME_S), round(phone.end_s / FRAME_S)
        start, length = _longest_run(quiet[a:b])
        is_stop = phone.symbol in ("p", "t", "k", "b", "d", "ɡ", "tʃ", "dʒ")
        if phone.symbol == SILENCE or length * FRAME_S < PAUSE_MIN_S + (0.05 if is_stop else 0.0):
            out.append(phone)
            continue
        gap = Phone(SILENCE, (a + start) * FRAME_S, (a + start + length) * FRAME_S)
        if is_stop and start <= 2:  # its closure stays with it
            gap = Phone(SILENCE, gap.start_s, gap.end_s - 0.06)
        sound = [Phone(phone.symbol, phone.start_s, gap.start_s), Phone(phone.symbol, gap.end_s, phone.end_s)]
        longer = max(sound, key=lambda part: part.end_s - part.start_s)
        out.extend([longer, gap] if longer is sound[0] else [gap, longer])
    return out


def _longest_run(flags: NDArray[np.bool_]) -> tuple[int, int]:
    """First index and length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    if len(edges) == 0:
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    best = int(lengths.argmax())
    return int(edges[2 * best]), int(lengths[best])


def _decode(decoder: Any, pcm: NDArray[np.int16]) -> None:
    decoder.start_utt()
    decoder.process_raw(pcm.tobytes(), full_utt=True)
    decoder.end_utt()


def load(folder: Path = DEFAULT_FOLDER, names: tuple[str, ...] = ("librivox",)) -> list[Utterance]:
    """The recordings with aligned phones; `voice` is `real:<set>`."""
    found = []
    for path, text in transcripts(folder, names):
        pcm = read_wav(path)
        phones = align(pcm, text)
        found.append(Utterance(pcm.astype(np.float32) / 32768.0, tuple(phones), f"real:{path.parent.name}", text))
    return found
