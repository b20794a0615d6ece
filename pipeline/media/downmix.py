"""Several channels -> one voice: the mixture follows where the speech is, and does not change while it plays.

A plain mean makes a voice in one of eight channels 18 dB too quiet, and two channels of opposite polarity nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32, F64

VOICE_BAND_HZ: Final = (200.0, 3_500.0)
"""Where speech is; hum, a subwoofer's channel and a constant offset have no say."""
ACTIVE_SHARE: Final = 0.01
"""A channel 20 dB below the loudest is taken for crosstalk."""
SILENT_POWER: Final = 1e-9
OPPOSED: Final = -0.3
"""Correlation below which a channel is turned over before it is added."""
NAMED_WEIGHTS: Final = {"FC": 1.0, "FL": 0.7071, "FR": 0.7071, "LFE": 0.0, "LFE2": 0.0}
"""Share of a named channel in a surround mixture (ITU-R BS.775); all others count half."""
SURROUND_WEIGHT: Final = 0.5


@dataclass(frozen=True)
class Mix:
    """How channels become one.

    Attributes:
        weights: float32 (channels,), factor of each channel.
    """

    weights: F32

    def mono(self, samples: F32) -> F32:
        """float32 (n, channels) -> float32 (n, 1); not clipped."""
        if len(self.weights) == 1:
            return samples
        return np.ascontiguousarray((samples @ self.weights)[:, None], np.float32)

    def turned(self, samples: F32) -> F32:
        """The channels themselves, those of opposite polarity turned over, so that their sum is heard everywhere."""
        if not (self.weights < 0).any():
            return samples
        return samples * np.where(self.weights < 0, np.float32(-1), np.float32(1))


def plain_mix(channels: int) -> Mix:
    """The mean."""
    return Mix(np.full(channels, 1.0 / channels, np.float32))


class ChannelSurvey:
    """Listens to where the voice is.

    Args:
        layout: The channels' names; empty where there are none.
        channels: How many, >= 1.
        rate_hz: Samples per second.
    """

    def __init__(self, layout: tuple[str, ...], channels: int, rate_hz: int) -> None:
        self._layout = layout
        from scipy.signal import butter, sosfilt, sosfilt_zi  # here, so that importing pipeline stays light

        low, high = VOICE_BAND_HZ
        self._sosfilt = sosfilt
        self._filter = butter(4, (low, min(high, 0.45 * rate_hz)), "bandpass", fs=rate_hz, output="sos")
        self._settled: F64 = sosfilt_zi(self._filter)
        self._state: F64 | None = None
        self._covariance = np.zeros((channels, channels))
        self._count = 0

    def hear(self, samples: F32) -> None:
        """Add float32 (n, channels)."""
        if self._state is None:  # as if the first sample had always been there: a constant is no voice
            self._state = self._settled[:, :, None] * samples[0].astype(np.float64)
        voice, self._state = self._sosfilt(self._filter, samples, axis=0, zi=self._state)
        self._covariance += voice.T @ voice
        self._count += len(samples)

    def mix(self) -> Mix:
        """The mixture for everything that was heard: as loud as the channel with the most speech."""
        power: F64 = np.diag(self._covariance) / max(self._count, 1)
        loudest = int(np.argmax(power))
        if power[loudest] < SILENT_POWER:
            return plain_mix(len(power))
        weights = np.zeros(len(power))
        for channel in np.argsort(-power, kind="stable"):
            if power[channel] < ACTIVE_SHARE * power[loudest]:
                break
            share = 1.0 if channel == loudest else self._share(int(channel), len(power))
            together = float(self._covariance[channel] @ weights)
            scale = float(np.sqrt(self._covariance[channel, channel] * (weights @ self._covariance @ weights)))
            weights[channel] = -share if together < OPPOSED * scale else share
        mixed = float(weights @ self._covariance @ weights) / self._count
        weights *= np.sqrt(power[loudest] / mixed)
        return Mix(np.round(weights, 6).astype(np.float32))

    def _share(self, channel: int, channels: int) -> float:
        if channels <= 2 or not self._layout:
            return 1.0
        return NAMED_WEIGHTS.get(self._layout[channel], SURROUND_WEIGHT)


class RunningMix:
    """The same for sound that comes piece by piece: what was heard so far decides, first the mean, and ever more slowly it changes.

    The weights are looked at every 100 ms of sound and move to their new values within 10 ms, wherever the pieces end.

    Args:
        channels: >= 1.
        rate_hz: Samples per second.
    """

    def __init__(self, channels: int, rate_hz: int) -> None:
        self._survey = ChannelSurvey((), channels, rate_hz)
        self._block = rate_hz // 10
        self._fade = rate_hz // 100
        self._heard: list[F32] = []
        self._at = 0
        self._before = self._now = plain_mix(channels).weights

    def push(self, samples: F32) -> F32:
        """The next float32 (n, channels) as float32 (n, 1), -1..1."""
        out: list[F32] = [np.zeros((0, 1), np.float32)]
        while len(samples):
            piece, samples = np.split(samples, [self._block - self._at])
            share = np.clip((self._at + 1 + np.arange(len(piece), dtype=np.float32)) / self._fade, 0, 1)[:, None]
            weights = self._before + (self._now - self._before) * share
            out.append(np.clip((piece * weights).sum(axis=1, keepdims=True), -1, 1))
            self._heard.append(piece)
            self._at += len(piece)
            if self._at == self._block:
                self._survey.hear(np.concatenate(self._heard))
                self._before, self._now = self._now, self._survey.mix().weights
                self._heard, self._at = [], 0
        return np.concatenate(out)
