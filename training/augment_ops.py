"""Single augmentations of a batch of audio (B, n), float32, 16 kHz, on any device; none of them moves speech in time.

Every function takes per-item parameters of shape (B,) and leaves an item alone where its parameter says so.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from pipeline.types import SAMPLE_RATE_HZ

N_FFT: Final = 512
HOP: Final = 128
EPS: Final = 1e-8


def rms(audio: Tensor) -> Tensor:
    """Root mean square of every item, (B, 1), at least 1e-5."""
    return audio.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-5)


def uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    """Uniform random numbers on the generator's device."""
    return low + (high - low) * torch.rand(shape, generator=generator, device=generator.device)


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Standard normal random numbers on the generator's device."""
    return torch.randn(shape, generator=generator, device=generator.device)


def chance(count: int, probability: float, generator: torch.Generator) -> Tensor:
    """True with the given probability, bool (count,)."""
    return torch.rand(count, generator=generator, device=generator.device) < probability


def coloured_noise(like: Tensor, slope: Tensor, generator: torch.Generator) -> Tensor:
    """Noise whose power falls as 1 / f^slope: 0 white, 1 pink, 2 brown; slope (B,); RMS 1.

    Args:
        like: (B, n), gives the shape.
        slope: (B,).
        generator: Source of randomness.
    """
    n = like.shape[-1]
    spectrum = torch.fft.rfft(normal((like.shape[0], n), generator))
    freq = torch.linspace(0.0, 1.0, spectrum.shape[-1], device=like.device).clamp_min(40.0 / (SAMPLE_RATE_HZ / 2))
    noise = torch.fft.irfft(spectrum * freq[None] ** (-slope[:, None] / 2), n=n)
    scaled: Tensor = noise / rms(noise)
    return scaled


def hum(like: Tensor, generator: torch.Generator) -> Tensor:
    """Mains or fan hum: 45..130 Hz with falling harmonics, RMS 1."""
    batch, n = like.shape
    base = uniform((batch, 1, 1), 45.0, 130.0, generator)
    order = torch.arange(1, 13, device=like.device)[None, :, None]
    level = uniform((batch, 12, 1), 0.0, 1.0, generator) / order
    phase = uniform((batch, 12, 1), 0.0, 6.2832, generator)
    time = torch.arange(n, device=like.device)[None, None] / SAMPLE_RATE_HZ
    tone = torch.zeros_like(like)
    for k in range(12):  # one harmonic at a time: (B, 12, n) would not fit for long batches
        tone += (level[:, k] * torch.sin(6.2832 * base[:, 0] * order[:, k] * time[:, 0] + phase[:, k])).reshape(
            batch, n
        )
    return tone / rms(tone)


def babble(audio: Tensor, voices: int, generator: torch.Generator) -> Tensor:
    """Other items of the batch, shifted in time and summed, RMS 1; a batch of one babbles with itself."""
    batch, n = audio.shape
    total = torch.zeros_like(audio)
    for _ in range(voices):
        order = torch.randperm(batch, generator=generator, device=audio.device)
        shift = int(torch.randint(n // 4, n - n // 4 + 1, (1,), generator=generator, device=audio.device))
        total += torch.roll(audio[order], shift, -1) / rms(audio[order])
    return total / rms(total)


def slow_gain(like: Tensor, depth: Tensor, generator: torch.Generator) -> Tensor:
    """A smooth random gain around 1 that changes about once a second, (B, n)."""
    batch, n = like.shape
    knots = max(n // SAMPLE_RATE_HZ + 2, 3)
    curve = uniform((batch, 1, knots), -1.0, 1.0, generator)
    smooth = torch.nn.functional.interpolate(curve, size=n, mode="linear", align_corners=True)[:, 0]
    return torch.exp(smooth * depth[:, None])


def room_impulses(batch: int, generator: torch.Generator, seconds: float = 0.4) -> Tensor:
    """Synthetic room responses (B, taps): 1 at tap 0, early reflections, a coloured exponentially decaying tail.

    The tail decays by 60 dB in 0.08..0.8 s; its energy is -14..+1 dB against the direct sound.
    """
    taps = round(seconds * SAMPLE_RATE_HZ)
    time = torch.arange(taps, device=generator.device)[None] / SAMPLE_RATE_HZ
    decay = torch.exp(uniform((batch, 1), -2.5, -0.2, generator))
    gap = uniform((batch, 1), 0.002, 0.012, generator)
    tail = normal((batch, taps), generator) * torch.exp(-6.9 * time / decay) * (time > gap)
    early = (
        (torch.rand((batch, taps), generator=generator, device=generator.device) < 0.004)
        & (time > 0.001)
        & (time < 0.05)
    )
    tail = tail + 4.0 * early * normal((batch, taps), generator) * torch.exp(-6.9 * time / decay)
    smooth = uniform((batch, 1), 0.0, 0.8, generator)
    tail = tail * (1 - smooth) + torch.roll(tail, 1, -1) * smooth  # walls swallow treble
    tail[:, 0] = 0.0
    level = 10 ** (uniform((batch, 1), -14.0, 1.0, generator) / 20)
    tail = tail / tail.square().sum(-1, keepdim=True).sqrt().clamp_min(EPS) * level
    tail[:, 0] = 1.0
    return tail


def convolve(audio: Tensor, impulse: Tensor) -> Tensor:
    """Causal convolution per item, same length; tap 0 is time 0, so nothing moves. The level of every item is kept."""
    n = audio.shape[-1] + impulse.shape[-1]
    wet = torch.fft.irfft(torch.fft.rfft(audio, n=n) * torch.fft.rfft(impulse, n=n), n=n)[..., : audio.shape[-1]]
    level: Tensor = wet / rms(wet) * rms(audio)
    return level


def equalise(audio: Tensor, low_cut: Tensor, high_cut: Tensor, tilt_db: Tensor, bumps_db: Tensor) -> Tensor:
    """Zero-phase filter.

    Args:
        audio: (B, n).
        low_cut: (B,) in Hz; below it 24 dB per octave.
        high_cut: (B,) in Hz; above it 48 dB per octave.
        tilt_db: (B,), gain per octave around 1 kHz.
        bumps_db: (B, k), gains at k points spread evenly over the Mel-like axis, joined smoothly.
    """
    n = audio.shape[-1]
    spectrum = torch.fft.rfft(audio)
    freq = torch.linspace(0.0, SAMPLE_RATE_HZ / 2, spectrum.shape[-1], device=audio.device).clamp_min(20.0)[None]
    octave = torch.log2(freq / 1000.0)
    where = torch.log1p(freq / 700.0) / torch.log1p(torch.tensor(SAMPLE_RATE_HZ / 2 / 700.0)) * (bumps_db.shape[-1] - 1)
    left = where.floor().long().clamp_max(bumps_db.shape[-1] - 2)[0]
    share = 0.5 - 0.5 * torch.cos(torch.pi * (where - left))
    bumps = bumps_db[:, left] * (1 - share) + bumps_db[:, left + 1] * share
    gain_db = bumps + tilt_db[:, None] * octave.clamp(-4.0, 3.0)
    gain = 10 ** (gain_db / 20)
    gain = gain / (1 + (low_cut[:, None] / freq) ** 8).sqrt() / (1 + (freq / high_cut[:, None]) ** 16).sqrt()
    filtered: Tensor = torch.fft.irfft(spectrum * gain, n=n)
    return filtered


def reshape_voice(
    audio: Tensor, formants: Tensor, breath: Tensor, holes_db: Tensor, generator: torch.Generator, smooth_bins: int = 9
) -> Tensor:
    """Change the speaker without touching timing: move formants, replace part of the excitation by noise, drop weak bins.

    Works on a short-time spectrum: the spectral envelope (a smoothed log magnitude) is stretched along frequency and put back
    under the same fine structure; pitch stays.

    Args:
        audio: (B, n).
        formants: (B,), factor on formant frequencies; 1 leaves them.
        breath: (B,), 0..1, share of the noise-excited copy (1 = whisper).
        holes_db: (B,), bins this far below a frame's strongest become zero, as in low-rate codecs; 200 = none.
        generator: Source of randomness.
        smooth_bins: Width of the envelope smoothing, odd; 9 bins are 280 Hz.
    """
    n = audio.shape[-1]
    window = torch.hann_window(N_FFT, device=audio.device)
    spectrum = torch.stft(audio, N_FFT, HOP, window=window, return_complex=True)
    magnitude = spectrum.abs()
    log_mag = torch.log(magnitude + 1e-5)
    batch, bins, frames = log_mag.shape
    rows = log_mag.transpose(1, 2).reshape(batch * frames, 1, bins)
    pad = smooth_bins // 2
    for _ in range(2):
        rows = torch.nn.functional.avg_pool1d(
            torch.nn.functional.pad(rows, (pad, pad), mode="replicate"), smooth_bins, 1
        )
    envelope = rows.reshape(batch, frames, bins).transpose(1, 2)
    source = (torch.arange(bins, device=audio.device)[None] / formants[:, None]).clamp_max(bins - 1.0)
    left = source.floor().long().clamp_max(bins - 2)
    share = (source - left)[..., None]
    index = left[..., None].expand(-1, -1, frames)
    warped = envelope.gather(1, index) * (1 - share) + envelope.gather(1, index + 1) * share
    gain = torch.exp((warped - envelope).clamp(-4.6, 4.6))
    voiced = spectrum * gain
    noise = torch.complex(normal((batch, bins, frames), generator), normal((batch, bins, frames), generator)) * 0.7071
    breathy = noise * torch.exp(warped)
    mixed = voiced * (1 - breath)[:, None, None] + breathy * breath[:, None, None]
    floor = mixed.abs().amax(1, keepdim=True) * 10 ** (-holes_db[:, None, None] / 20)
    mixed = torch.where(mixed.abs() >= floor, mixed, torch.zeros_like(mixed))
    return torch.istft(mixed, N_FFT, HOP, window=window, length=n)


def mu_law(audio: Tensor, levels: Tensor) -> Tensor:
    """Logarithmic quantisation to `levels` (B,) steps per side; 0 leaves the item alone."""
    steps = levels.clamp_min(1.0)[:, None]
    mu = 255.0
    squeezed = torch.sign(audio) * torch.log1p(mu * audio.abs().clamp_max(1.0)) / torch.log1p(torch.tensor(mu))
    rounded = torch.round(squeezed * steps) / steps
    expanded = torch.sign(rounded) * (torch.exp(rounded.abs() * torch.log1p(torch.tensor(mu))) - 1) / mu
    return torch.where(levels[:, None] > 0, expanded, audio)


def clip(audio: Tensor, drive: Tensor, hard: Tensor) -> Tensor:
    """Overdrive by `drive` (B,), 1 = none: hard clipping where `hard`, else tanh; peaks keep their level."""
    peak = audio.abs().amax(-1, keepdim=True).clamp_min(EPS)
    x = audio / peak * drive[:, None]
    shaped = torch.where(hard[:, None], x.clamp(-1.0, 1.0), torch.tanh(x) / torch.tanh(drive)[:, None])
    return torch.where(drive[:, None] > 1.0, shaped * peak, audio)
