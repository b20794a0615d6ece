"""Make a face speak known sentences, film it, and compare the measured mouth with the expected one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from benchmarks.quality.aperture import CLOSED_MARGIN, Apertures
from engines.motion_layout import EXP
from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError
from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ
from training.lip_sync import Span, SpokenClip, closed_share

SILENCE_S: Final = 5.0
NOISE_DBFS: Final = -50.0
IDLE_LOOP_FRAMES: Final = 150


class Meter(Protocol):
    """Reads apertures from a video; `benchmarks.quality.aperture.ApertureMeter` is the real one."""

    def measure_video(self, video: bytes) -> Apertures:
        """Apertures of the decoded frames of an mp4."""


class Face(Protocol):
    """Films one presenter by the product's own path to pictures."""

    def speak(self, pcm: F32) -> bytes:
        """Speech, float32 (n,), 16 kHz -> the mp4 that a user would get."""

    def film(self, motion: F32) -> bytes:
        """Motion float32 (n, 265) -> mp4, by the same renderer and encoder, with no network in between."""

    def idle(self, frames: int) -> F32:
        """Motion float32 (frames, 265) of the idle loop."""

    def planes(self, pcm: F32, chunk_frames: int | None) -> Iterator[tuple[U8, U8]]:
        """NV12 planes of the face rectangle of every frame before encoding; None renders the clip in one pass."""


@dataclass(frozen=True)
class Sentence:
    """Holds one held-out sentence and what is expected of the mouth.

    Attributes:
        name: Voice and number, for error messages.
        pcm: float32 (n,), 16 kHz.
        expected: float32 (frames,), expected opening 0..1 at 25 frames/s.
        closures: Timings of every /m b p/.
        label_exp: float32 (frames, 63), control-point offsets made from the phoneme labels; None without such labels.
    """

    name: str
    pcm: F32
    expected: F32
    closures: tuple[Span, ...]
    label_exp: F32 | None = None


def rest_limit(face: Face, meter: Meter, frames: int = IDLE_LOOP_FRAMES) -> float:
    """Aperture below which this face counts as closed: median over its idle loop plus the margin.

    Raises:
        NoFaceError: The meter does not find this face reliably.
    """
    return meter.measure_video(face.film(face.idle(frames))).rest + CLOSED_MARGIN


def spoken_clips(face: Face, meter: Meter, sentences: Sequence[Sentence]) -> list[SpokenClip]:
    """Let the whole product speak every sentence and measure it.

    Raises:
        NoFaceError: Over all sentences, fewer than 99 % of the frames show a face.
    """
    return _clips([(sentence, face.speak(sentence.pcm)) for sentence in sentences], meter)


def ceiling_clips(face: Face, meter: Meter, sentences: Sequence[Sentence]) -> list[SpokenClip]:
    """The same with lips made from the labels on the idle head: what remains when the networks are perfect.

    Raises:
        InvalidInputError: A sentence has no label motion.
        NoFaceError: See `spoken_clips`.
    """
    films = []
    for sentence in sentences:
        if sentence.label_exp is None:
            raise InvalidInputError(sentence.name, "no label motion", "sentences with phoneme labels")
        motion = face.idle(len(sentence.label_exp)).copy()
        motion[:, EXP] += sentence.label_exp
        films.append((sentence, face.film(motion)))
    return _clips(films, meter)


def silence_shares(face: Face, meter: Meter, speech: F32, limit: float, seed: int = 0) -> dict[str, list[float]]:
    """Share of closed frames in 5 s of silence right after speech, and in 5 s of silence alone.

    Args:
        face: The face that is silent.
        meter: Reads the mouth.
        speech: float32 (n,), 16 kHz, what is said before.
        limit: Closed is below this aperture.
        seed: Seed of the noise.

    Returns:
        `digital` and `noise`: the share after speech and the share alone, each 0..1.
    """
    length = round(SILENCE_S * SAMPLE_RATE_HZ)
    level = 10.0 ** (NOISE_DBFS / 20.0)
    noise = (np.random.default_rng(seed).standard_normal(length) * level).astype(np.float32)
    shares = {}
    for kind, quiet in (("digital", np.zeros(length, np.float32)), ("noise", noise)):
        after = meter.measure_video(face.speak(np.concatenate([speech, quiet]).astype(np.float32)))
        alone = meter.measure_video(face.speak(quiet))
        shares[kind] = [
            closed_share(after.values, limit, MOTION_FPS, silent_from_s=speech.size / SAMPLE_RATE_HZ),
            closed_share(alone.values, limit, MOTION_FPS, after_speech=False),
        ]
    return shares


def _clips(films: Sequence[tuple[Sentence, bytes]], meter: Meter) -> list[SpokenClip]:
    clips = []
    for sentence, video in films:
        found = meter.measure_video(video)
        frames = sentence.expected.size
        if abs(found.values.size - frames) > 1:
            raise InvalidInputError(sentence.name, f"{found.values.size} frames of video", f"{frames} of speech")
        shown = min(frames, found.values.size)
        clips.append(
            SpokenClip(
                sentence.name, found.values[:shown], sentence.expected[:shown], sentence.closures, float(MOTION_FPS)
            )
        )
    Apertures(np.concatenate([clip.aperture for clip in clips])).require_faces()
    return clips
