"""How a microphone was taken before: on the event loop, every packet by itself, two resamplers, ten seconds judged for each.

It is the baseline of `benchmarks.live.microphone`, measured in the same run.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from scipy.signal import sosfilt

from kernels.arrays import F32
from kernels.audio.rms_energy import rms_energy
from pipeline.live import microphone
from pipeline.media.loudness import (
    COMFORTABLE_LUFS,
    LEAST_LUFS,
    NETWORK_LUFS,
    has_ups_and_downs,
    speech_band,
    speech_levels,
)
from pipeline.media.resample import StreamingResampler
from pipeline.session import speech_scan
from pipeline.types import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from pipeline.webrtc.packets import AUDIO_CLOCK_HZ
from pipeline.webrtc.voice_receiver import VoiceReceiver


class PacketByPacket:
    """Decodes where the packets come.

    Args:
        deliver: Gets the voice, as `pipeline.webrtc.microphone_line.OnVoice` says.
        clock: Monotonic seconds.
    """

    def __init__(self, deliver: Callable[[F32, int, float], int], clock: Callable[[], float]) -> None:
        self._receiver = VoiceReceiver(lambda samples, place: void(deliver(samples, place, 0.0)), clock)
        self.packet = self._receiver.packet
        self.passes = self._receiver.passes

    def close(self) -> None:
        """Nothing is to be freed."""


def void(answer: object) -> None:
    """Leave an answer out."""


class TwoResamplers:
    """Cubic interpolation at 48 kHz for the pace, then FFmpeg's resampler.

    Attributes:
        pace: Input samples per sample that is read.
    """

    def __init__(self) -> None:
        self.pace = 1.0
        self._held = np.zeros(1, np.float32)
        self._position = 1.0
        self._to_16 = StreamingResampler(SAMPLE_RATE_HZ)

    def push(self, samples: F32) -> F32:
        """Add float32 (n,), 48 kHz, and take what is ready, float32 (m,), 16 kHz."""
        return self._to_16.push(self.stretch(samples), AUDIO_CLOCK_HZ)[:, 0]

    def stretch(self, samples: F32) -> F32:
        """At the pace, still at 48 kHz."""
        line = np.concatenate([self._held, samples])
        last = len(line) - 3
        count = int(np.floor((last - self._position) / self.pace)) + 1 if last >= self._position else 0
        places = self._position + self.pace * np.arange(count)
        index = places.astype(np.int64)
        t = (places - index).astype(np.float32)
        a, b, c, d = line[index - 1], line[index], line[index + 1], line[index + 2]
        out = (
            b
            + t * (-a / 3 - b / 2 + c - d / 6)
            + t * t * (a / 2 - b + c / 2)
            + t * t * t * (-a / 6 + b / 2 - c / 2 + d / 6)
        )
        following = self._position + self.pace * count
        keep = max(int(following) - 1, 0)
        self._held, self._position = line[keep:], following - keep
        return np.asarray(out, np.float32)


class RecomputedLevel:
    """`RunningLevel` that looks at all of its ten seconds for every frame.

    Attributes:
        gain: What to multiply samples with for the networks.
    """

    def __init__(self) -> None:
        self._state = np.zeros((len(speech_band()), 2))
        self._rest = np.zeros((2, 0))
        self._frames: deque[tuple[float, ...]] = deque(maxlen=250)
        self.gain = 1.0

    def hear(self, pcm: F32) -> None:
        """Take in the next samples, float32 (n,), mono, 16 kHz."""
        band, self._state = sosfilt(speech_band(), pcm, zi=self._state)
        both = np.concatenate([self._rest, np.stack([pcm, band])], axis=1)
        whole = both.shape[1] // SAMPLES_PER_FRAME
        self._rest = both[:, whole * SAMPLES_PER_FRAME :]
        if not whole:
            return
        frames = both[:, : whole * SAMPLES_PER_FRAME].reshape(2, whole, SAMPLES_PER_FRAME)
        self._frames.extend(zip(*speech_levels(frames).tolist(), strict=True))
        if len(self._frames) < 25:
            return
        levels = np.array(self._frames).T
        power = np.convolve(10 ** (levels[0] / 10), np.full(10, 0.1), "valid")
        level = -1.0 + 10 * math.log10(float(np.mean(power[power >= 0.1 * np.mean(power)])))
        low, high = COMFORTABLE_LUFS
        heard_as = level + 20 * math.log10(self.gain)
        if low <= heard_as <= high or (level <= high and not (level >= LEAST_LUFS and has_ups_and_downs(levels))):
            return
        self.gain = 10 ** ((0.0 if low <= level <= high else min(NETWORK_LUFS - level, 24.0)) / 20)


def torch_rms(pcm: F32) -> F32:
    """`frame_rms` by torch, whose calls cost more than 40 ms of sound."""
    return rms_energy(torch.tensor(pcm, dtype=torch.float32), SAMPLES_PER_FRAME).numpy()


@contextmanager
def as_before() -> Generator[None]:
    """Put the former parts in the place of the product's."""
    places: tuple[tuple[Any, str, Any], ...] = (
        (microphone, "VoiceResampler", TwoResamplers),
        (microphone, "RunningLevel", RecomputedLevel),
        (speech_scan, "frame_rms", torch_rms),
    )
    stock = [getattr(module, name) for module, name, _ in places]
    for module, name, former in places:
        setattr(module, name, former)
    try:
        yield
    finally:
        for (module, name, _), one in zip(places, stock, strict=True):
            setattr(module, name, one)
