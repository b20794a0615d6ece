"""Make synthetic speech sound like recordings of people: noise, rooms, microphones, codecs, other vocal tracts.

`Augmenter` never moves speech in time, so labels stay exact. `change_speed` does, and moves the labels with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.types import FEATURE_RATE_HZ, SAMPLE_RATE_HZ
from training import augment_ops as ops


@dataclass(frozen=True)
class AugmentConfig:
    """Probabilities per item and ranges; decibels are of amplitude."""

    formants: float = 0.8
    formant_spread: float = 0.11
    breath: float = 0.5
    breath_max: float = 0.45
    whisper: float = 0.04
    codec_holes: float = 0.15
    room: float = 0.6
    equaliser: float = 0.8
    telephone: float = 0.12
    noise: float = 0.75
    snr_db: tuple[float, float] = (3.0, 45.0)
    babble: float = 0.2
    babble_snr_db: tuple[float, float] = (8.0, 30.0)
    hum: float = 0.15
    clipping: float = 0.1
    quantise: float = 0.12
    gain_db: tuple[float, float] = (-25.0, 6.0)
    offset: float = 0.05
    clean: float = 0.08


class Augmenter:
    """Label-preserving augmentation of a batch.

    Args:
        config: Probabilities and ranges.

    Randomness comes from the generator passed to each call; it must live on the device of the audio.
    """

    def __init__(self, config: AugmentConfig | None = None) -> None:
        self.config = config or AugmentConfig()

    @torch.no_grad()
    def __call__(self, audio: Tensor, generator: torch.Generator) -> Tensor:
        """Augment.

        Args:
            audio: float32 (B, n), 16 kHz, -1..1; n >= 512.
            generator: On the same device.

        Returns:
            float32 (B, n), -1..1, finite; a share `clean` of the items only has its gain changed.
        """
        c, batch = self.config, audio.shape[0]
        keep = ops.chance(batch, c.clean, generator)[:, None]
        out = self._voice(audio, generator)
        out = self._room_and_microphone(out, generator)
        out = self._noise(out, audio, generator)
        out = self._electronics(out, generator)
        out = torch.where(keep, audio, out)
        gain = 10 ** (ops.uniform((batch, 1), *c.gain_db, generator) / 20)
        return torch.nan_to_num(out * gain).clamp(-1.0, 1.0)

    def _voice(self, audio: Tensor, generator: torch.Generator) -> Tensor:
        c, batch = self.config, audio.shape[0]
        spread = torch.exp(c.formant_spread * ops.normal((batch,), generator)).clamp(0.78, 1.3)
        formants = torch.where(ops.chance(batch, c.formants, generator), spread, torch.ones_like(spread))
        share = ops.uniform((batch,), 0.0, c.breath_max, generator)
        breath = torch.where(ops.chance(batch, c.breath, generator), share, torch.zeros_like(share))
        breath = torch.where(ops.chance(batch, c.whisper, generator), torch.ones_like(share), breath)
        holes = ops.uniform((batch,), 22.0, 45.0, generator)
        holes = torch.where(ops.chance(batch, c.codec_holes, generator), holes, torch.full_like(holes, 200.0))
        return ops.reshape_voice(audio, formants, breath, holes, generator)

    def _room_and_microphone(self, audio: Tensor, generator: torch.Generator) -> Tensor:
        c, batch = self.config, audio.shape[0]
        wet = ops.convolve(audio, ops.room_impulses(batch, generator))
        audio = torch.where(ops.chance(batch, c.room, generator)[:, None], wet, audio)
        phone = ops.chance(batch, c.telephone, generator)
        low = torch.where(
            phone, torch.full_like(phone, 300, dtype=torch.float32), ops.uniform((batch,), 20.0, 180.0, generator)
        )
        high_any = 8000.0 - 4800.0 * ops.uniform((batch,), 0.0, 1.0, generator) ** 2
        high = torch.where(phone, torch.full_like(high_any, 3400.0), high_any)
        tilt = 2.0 * ops.normal((batch,), generator)
        bumps = 3.0 * ops.normal((batch, 10), generator)
        shaped = ops.equalise(audio, low, high, tilt.clamp(-4.0, 4.0), bumps)
        shaped = shaped / ops.rms(shaped) * ops.rms(audio)
        return torch.where((ops.chance(batch, c.equaliser, generator) | phone)[:, None], shaped, audio)

    def _noise(self, audio: Tensor, clean: Tensor, generator: torch.Generator) -> Tensor:
        c, batch = self.config, audio.shape[0]
        level = ops.rms(audio).clamp_min(0.01)  # silent items get noise at most 40 dB below full scale

        def at(snr: tuple[float, float], probability: float) -> Tensor:
            on = ops.chance(batch, probability, generator)[:, None]
            return on * level * 10 ** (-ops.uniform((batch, 1), *snr, generator) / 20)

        slope = ops.uniform((batch,), -0.2, 2.2, generator)
        noise = ops.coloured_noise(audio, slope, generator)
        noise = noise * ops.slow_gain(audio, ops.uniform((batch,), 0.0, 0.8, generator), generator)
        out = audio + noise * at(c.snr_db, c.noise)
        voices = int(torch.randint(3, 8, (1,), generator=generator, device=generator.device))
        out = out + ops.babble(clean, voices, generator) * at(c.babble_snr_db, c.babble)
        return out + ops.hum(audio, generator) * at((10.0, 40.0), c.hum)

    def _electronics(self, audio: Tensor, generator: torch.Generator) -> Tensor:
        c, batch = self.config, audio.shape[0]
        drive = ops.uniform((batch,), 1.2, 4.0, generator)
        drive = torch.where(ops.chance(batch, c.clipping, generator), drive, torch.ones_like(drive))
        out = ops.clip(audio, drive, ops.chance(batch, 0.5, generator))
        levels = torch.round(2 ** ops.uniform((batch,), 4.5, 7.0, generator))
        levels = torch.where(ops.chance(batch, c.quantise, generator), levels, torch.zeros_like(levels))
        out = ops.mu_law(out, levels)
        offset = ops.uniform((batch, 1), -0.02, 0.02, generator) * ops.chance(batch, c.offset, generator)[:, None]
        return out + offset


def change_speed(audio: Tensor, labels: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """Play faster (factor > 1) or slower: pitch, formants and timing all change, and the labels with them.

    Args:
        audio: float32 (B, n).
        labels: uint8 or int64 (B, rows) at 50 Hz, row i centred at (i + 0.5) / 50 s.
        factor: 0.5..2.

    Returns:
        audio (B, floor(n / factor)) and labels of ceil of that over 320 rows. A time t of the input is at t / factor.
    """
    n = int(audio.shape[-1] / factor)
    where = torch.arange(n, device=audio.device, dtype=torch.float64) * factor
    source = audio
    if factor > 1.0:  # band-limit first
        spectrum = torch.fft.rfft(audio)
        keep = int(spectrum.shape[-1] / factor)
        spectrum[..., keep:] = 0
        source = torch.fft.irfft(spectrum, n=audio.shape[-1])
    left = where.floor().long().clamp_max(audio.shape[-1] - 2)
    share = (where - left).to(audio.dtype)
    fast = _cubic(source, left, share)
    rows = -(-n * FEATURE_RATE_HZ // SAMPLE_RATE_HZ)
    centres = (torch.arange(rows, device=labels.device) + 0.5) * factor
    return fast, labels[..., centres.floor().long().clamp_max(labels.shape[-1] - 1)]


def _cubic(x: Tensor, left: Tensor, share: Tensor) -> Tensor:
    """Catmull-Rom interpolation of (B, n) at `left + share`."""
    last = x.shape[-1] - 1
    p0, p1 = x[..., (left - 1).clamp_min(0)], x[..., left]
    p2, p3 = x[..., (left + 1).clamp_max(last)], x[..., (left + 2).clamp_max(last)]
    a, b = -0.5 * p0 + 1.5 * p1 - 1.5 * p2 + 0.5 * p3, p0 - 2.5 * p1 + 2.0 * p2 - 0.5 * p3
    return ((a * share + b) * share + 0.5 * (p2 - p0)) * share + p1
