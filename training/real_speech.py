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
from training.pauses import cut_pauses
from training.phones import SILENCE, Phone, from_arpabet, split, tidy
from training.utterance import SynthesisError, Utterance

DEFAULT_FOLDER: Final = Path("/usr/share/pocketsphinx/test/data")
FRAME_S: Final = 0.010
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
        SynthesisError: The recogniser is not installed, does not know a word, or could not fit the text to the sound.
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
    return tidy(cut_pauses(phones, pcm.astype(np.float32)), len(pcm) / SAMPLE_RATE_HZ)


def _decode(decoder: Any, pcm: NDArray[np.int16]) -> None:
    decoder.start_utt()
    decoder.process_raw(pcm.tobytes(), full_utt=True)
    try:
        decoder.end_utt()
    except RuntimeError as error:
        raise SynthesisError("the recogniser lost the text") from error


def load(folder: Path = DEFAULT_FOLDER, names: tuple[str, ...] = ("librivox",)) -> list[Utterance]:
    """The recordings with aligned phones; `voice` is `real:<set>`."""
    found = []
    for path, text in transcripts(folder, names):
        pcm = read_wav(path)
        phones = align(pcm, text)
        found.append(Utterance(pcm.astype(np.float32) / 32768.0, tuple(phones), f"real:{path.parent.name}", text))
    return found


def load_all() -> list[Utterance]:
    """Both sets, where Debian's package puts them."""
    return load(names=tuple(_SETS))
