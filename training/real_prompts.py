"""Recordings of a person with phone timings: telephone prompts, Debian's `asterisk-core-sounds-en-g722` (16 kHz, 10 minutes).

Used for measuring only, never for training. Their texts come with `asterisk-core-sounds-en`; they are aligned by a real recogniser
(`training.real_speech.align`). What the texts do not say exactly (digits, tones) or the recogniser does not know is
left out.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.errors import InvalidInputError
from pipeline.types import SAMPLE_RATE_HZ
from training.real_speech import align
from training.utterance import SynthesisError, Utterance

DEFAULT_ROOT: Final = Path("/")
SOUNDS: Final = "usr/share/asterisk/sounds/en_US_f_Allison"
TEXTS: Final = "usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"
SHORTEST_S: Final = 0.8


def texts(root: Path = DEFAULT_ROOT) -> Iterator[tuple[Path, str]]:
    """Recordings and their words in lower case, where the words have a letter m, b or p and no digits.

    Args:
        root: Folder in which the two packages are installed or unpacked.

    Raises:
        InvalidInputError: The packages are not there; the error names them.
    """
    listing = root / TEXTS
    if not listing.is_file() or not (root / SOUNDS).is_dir():
        raise InvalidInputError(
            "real_prompts", str(root), "a system with the prompts",
            "install or unpack Debian's asterisk-core-sounds-en and asterisk-core-sounds-en-g722",
        )  # fmt: skip
    for line in gzip.decompress(listing.read_bytes()).decode("utf-8").splitlines():
        name, colon, said = line.partition(":")
        path = root / SOUNDS / f"{name.strip()}.g722"
        if line.startswith(";") or not colon or not path.is_file() or re.search(r"\d", said):
            continue
        words = re.sub(r"\[.*?\]|\(.*?\)", "", said.lower())
        words = " ".join(re.sub(r"[^a-z' ]", " ", words).split())
        if re.search("[mbp]", words):
            yield path, words


def read_g722(path: Path) -> NDArray[np.int16]:
    """Samples of a raw G.722 file, 16 kHz mono."""
    import av  # not on every machine that trains

    with av.open(str(path), format="g722") as container:
        parts = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    return np.concatenate(parts).astype(np.int16)


def load(root: Path = DEFAULT_ROOT) -> list[Utterance]:
    """The recordings that could be aligned; `voice` is `real:prompts`."""
    found = []
    for path, words in texts(root):
        pcm = read_g722(path)
        if len(pcm) < SHORTEST_S * SAMPLE_RATE_HZ:
            continue
        try:
            phones = align(pcm, words)
        except SynthesisError:
            continue
        found.append(Utterance(pcm.astype(np.float32) / 32768.0, tuple(phones), "real:prompts", words))
    return found
