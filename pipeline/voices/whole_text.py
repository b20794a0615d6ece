"""A whole text as one sound file, with the time of everything that is said in it."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np

from kernels.arrays import F32
from pipeline.media.resample import StreamingResampler
from pipeline.voices.errors import TextTooLongError
from pipeline.voices.sentences import sentences
from pipeline.voices.speaking import SpokenPiece, speak
from pipeline.voices.voice import Voice, WordTime


@dataclass(frozen=True)
class SaidSentence:
    """A sentence and when it is heard.

    Attributes:
        text: The sentence as it was written.
        start_s: Seconds from the beginning of the sound to its first sample.
        stop_s: Seconds to its last one.
        words: Times of its words on the same clock; empty where the voice does not tell.
    """

    text: str
    start_s: float
    stop_s: float
    words: tuple[WordTime, ...] = ()


@dataclass(frozen=True)
class SpokenText:
    """A text that was spoken.

    Attributes:
        wav: A WAV file, 16 bit mono.
        said: What is heard, in its order.
    """

    wav: bytes
    said: tuple[SaidSentence, ...]


async def speak_whole(voice: Voice, text: str, max_seconds: float, field: str = "prompt") -> SpokenText:
    """Speak a text to its end.

    Args:
        voice: Makes the sound.
        text: What `spoken_text` returned.
        max_seconds: Refuse more sound than this.
        field: Name of the field or flag that the text came in, for the error.

    Raises:
        TextTooLongError: The text is longer than that.
        LiveAnchorError: As `Voice.say` says.
    """
    texts = sentences(text)
    said = [SaidSentence(one.text, 0.0, 0.0) for one in texts]
    pieces: list[F32] = []
    to_file: StreamingResampler | None = None
    length_s = 0.0
    async with aclosing(speak(voice, texts)) as spoken:
        async for piece in spoken:
            to_file = to_file or StreamingResampler(piece.rate_hz)
            pieces.append(to_file.push(piece.pcm, piece.rate_hz)[:, 0])
            if piece.sentence is not None:
                said[piece.sentence] = _with(said[piece.sentence], piece, length_s)
            length_s += len(piece.pcm) / piece.rate_hz
            if length_s > max_seconds:
                raise TextTooLongError(field, f"more than {max_seconds:g} s of speech", f"at most {max_seconds:g} s")
    rate_hz = to_file.rate_hz if to_file is not None else 0
    if to_file is not None:
        pieces.append(to_file.flush()[:, 0])
    return SpokenText(_wav(pieces, rate_hz), tuple(_within(one) for one in said if one.stop_s))


def _with(said: SaidSentence, piece: SpokenPiece, place_s: float) -> SaidSentence:
    """The sentence with one more piece of its sound, which begins at `place_s`."""
    start_s = said.start_s if said.stop_s else place_s
    words = tuple(replace(word, start_s=start_s + word.start_s, stop_s=start_s + word.stop_s) for word in piece.words)
    return replace(said, start_s=start_s, stop_s=place_s + len(piece.pcm) / piece.rate_hz, words=said.words + words)


def _within(said: SaidSentence) -> SaidSentence:
    """The sentence with no word that lasts longer than its sound."""
    words = tuple(
        replace(word, start_s=min(word.start_s, said.stop_s), stop_s=min(word.stop_s, said.stop_s))
        for word in said.words
    )
    return replace(said, words=words)


def _wav(pieces: Sequence[F32], rate_hz: int) -> bytes:
    samples = np.clip(np.concatenate(pieces), -1.0, 1.0)
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, rate_hz, 0, "NONE", ""))
        writer.writeframes(np.rint(samples * 32767).astype("<i2").tobytes())
    return file.getvalue()
