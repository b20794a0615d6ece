"""The labelled speech that every synthesiser hands back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import resample_poly

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.types import SAMPLE_RATE_HZ
from training.phones import Phone


class SynthesisError(LiveAnchorError):
    """A synthesiser is missing, refused its voice or produced nothing."""

    code = "synthesis_failed"


@dataclass(frozen=True)
class Utterance:
    """Labelled speech.

    Attributes:
        audio: float32 (n,), mono, 16 kHz, -1..1.
        phones: Canonical phones that tile the audio.
        voice: Name of engine and voice, e.g. `espeak:en-us+f3`, `flite:slt`.
        text: What was said.
    """

    audio: F32
    phones: tuple[Phone, ...]
    voice: str
    text: str

    @property
    def duration_s(self) -> float:
        """Length of the audio in seconds."""
        return len(self.audio) / SAMPLE_RATE_HZ


def to_16k(audio: F32, rate_hz: int) -> F32:
    """Resample mono audio to 16 kHz with a zero-phase polyphase filter; sample 0 stays at time 0."""
    if rate_hz == SAMPLE_RATE_HZ or len(audio) == 0:
        return audio.astype(np.float32)
    common = int(np.gcd(rate_hz, SAMPLE_RATE_HZ))
    resampled = resample_poly(audio.astype(np.float64), SAMPLE_RATE_HZ // common, rate_hz // common)
    return np.asarray(resampled, dtype=np.float32)
