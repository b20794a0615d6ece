import numpy as np
import pytest
import torch

from training import augment_ops as ops
from training.augment import AugmentConfig, Augmenter, change_speed

RATE = 16_000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bursts(batch: int = 6, seconds: float = 2.0) -> torch.Tensor:
    """Buzzes of 0.2 s at random places over silence: an envelope whose timing can be compared."""
    draw = np.random.default_rng(1)
    time = np.arange(int(RATE * seconds)) / RATE
    out = np.zeros((batch, len(time)), np.float32)
    for b in range(batch):
        for start in draw.uniform(0.1, seconds - 0.4, 4):
            tone = sum(np.sin(2 * np.pi * 120 * k * time) / k for k in range(1, 20))
            out[b] += 0.1 * tone * ((time > start) & (time < start + 0.2))
    return torch.from_numpy(out)


def envelope(audio: torch.Tensor) -> torch.Tensor:
    return audio.reshape(audio.shape[0], -1, 80).square().mean(-1).sqrt()


def best_lag(a: torch.Tensor, b: torch.Tensor) -> int:
    scores = [torch.corrcoef(torch.stack([a, torch.roll(b, -lag)]))[0, 1].item() for lag in range(-12, 13)]
    return int(np.argmax(scores)) - 12


def test_same_generator_same_result_and_another_seed_another_one() -> None:
    audio = bursts()
    first = Augmenter()(audio, generator(3))
    assert torch.equal(first, Augmenter()(audio, generator(3)))
    assert not torch.equal(first, Augmenter()(audio, generator(4)))
    assert first.shape == audio.shape


@pytest.mark.parametrize(
    "audio", [torch.zeros(3, 4000), torch.ones(2, 4000), torch.randn(1, 800, generator=generator())]
)
def test_awkward_inputs_stay_finite_and_in_range(audio: torch.Tensor) -> None:
    for seed in range(5):
        out = Augmenter()(audio, generator(seed))
        assert torch.isfinite(out).all()
        assert out.abs().max() <= 1.0


def test_speech_does_not_move() -> None:
    config = AugmentConfig(
        room=1.0, equaliser=1.0, formants=1.0, breath=1.0, snr_db=(20.0, 40.0), babble=0.0, whisper=0.0
    )
    audio = bursts(8)
    out = Augmenter(config)(audio, generator(5))
    lags = [best_lag(envelope(audio)[b], envelope(out)[b]) for b in range(8)]
    assert np.median(np.abs(lags)) == 0
    assert max(np.abs(lags)) <= 4  # 20 ms of reverberation smear at most


def test_formant_warp_moves_the_peak_and_keeps_the_pitch() -> None:
    time = torch.arange(RATE) / RATE
    harmonics = torch.arange(1, 50)[:, None] * 125.0
    weight = torch.exp(-(((harmonics - 1500.0) / 300.0) ** 2))
    audio = (weight * torch.sin(2 * torch.pi * harmonics * time)).sum(0, keepdim=True) * 0.05
    one, none = torch.ones(1), torch.zeros(1)
    same = ops.reshape_voice(audio, one, none, 200 * one, generator())
    torch.testing.assert_close(same, audio, atol=1e-4, rtol=0)
    moved = ops.reshape_voice(audio, 1.2 * one, none, 200 * one, generator())
    spectrum = torch.fft.rfft(moved[0, 2000:-2000]).abs()
    freq = torch.fft.rfftfreq(len(moved[0]) - 4000, 1 / RATE)
    centroid = (spectrum.square() * freq).sum() / spectrum.square().sum()
    assert 1650 < centroid < 1900
    strongest = freq[spectrum.argmax()].item()
    assert abs(strongest / 125.0 - round(strongest / 125.0)) < 0.03


def test_whisper_has_no_pitch_but_the_same_envelope() -> None:
    audio = bursts(2)
    whisper = ops.reshape_voice(audio, torch.ones(2), torch.ones(2), torch.full((2,), 200.0), generator())
    assert abs(best_lag(envelope(audio)[0], envelope(whisper)[0])) <= 1

    def periodicity(x: torch.Tensor) -> float:
        power = torch.fft.rfft(x, n=2 * len(x)).abs().square()
        correlation = torch.fft.irfft(power)
        return float(correlation[100:200].max() / correlation[0])

    assert periodicity(audio[0]) > 0.7
    assert periodicity(whisper[0]) < 0.4


def test_room_keeps_the_direct_sound_at_time_zero() -> None:
    impulse = ops.room_impulses(5, generator())
    assert torch.equal(impulse[:, 0], torch.ones(5))
    click = torch.zeros(5, 4000)
    click[:, 1000] = 1.0
    wet = ops.convolve(click, impulse)
    assert wet[:, :1000].abs().max() < 1e-5
    assert (wet.abs().argmax(-1) == 1000).all()


def test_noise_slopes() -> None:
    noise = ops.coloured_noise(torch.zeros(3, RATE), torch.tensor([0.0, 1.0, 2.0]), generator())
    power = torch.fft.rfft(noise).abs().square()
    octave = [torch.log2(power[:, f : 2 * f].mean(-1)) for f in (200, 3200)]
    drop = (octave[0] - octave[1]) / 4
    torch.testing.assert_close(drop, torch.tensor([0.0, 1.0, 2.0]), atol=0.2, rtol=0)
    torch.testing.assert_close(ops.rms(noise), torch.ones(3, 1))


def test_telephone_band() -> None:
    audio = torch.randn(1, RATE, generator=generator())
    out = ops.equalise(audio, torch.tensor([300.0]), torch.tensor([3400.0]), torch.zeros(1), torch.zeros(1, 10))
    power = torch.fft.rfft(out)[0].abs().square()
    assert power[20:150].mean() < 0.01 * power[500:3000].mean()
    assert power[5000:].mean() < 0.01 * power[500:3000].mean()


def test_mu_law_and_clip_leave_items_alone_where_told() -> None:
    audio = bursts(2)
    out = ops.mu_law(audio, torch.tensor([0.0, 16.0]))
    assert torch.equal(out[0], audio[0])
    assert len(torch.unique(out[1])) <= 33
    clipped = ops.clip(audio, torch.tensor([1.0, 3.0]), torch.tensor([True, True]))
    assert torch.equal(clipped[0], audio[0])
    assert (clipped[1].abs() == clipped[1].abs().max()).sum() > 10


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.25])
def test_change_speed_moves_labels_with_the_sound(factor: float) -> None:
    audio = torch.zeros(1, 2 * RATE)
    audio[0, RATE : RATE + 3200] = 0.3 * torch.sin(torch.arange(3200) * 0.2)
    labels = torch.zeros(1, 100, dtype=torch.uint8)
    labels[0, 50:60] = 7
    fast, moved = change_speed(audio, labels, factor)
    assert fast.shape[-1] == int(2 * RATE / factor)
    assert moved.shape[-1] == -(-fast.shape[-1] // 320)
    loud = envelope(fast[:, : fast.shape[-1] // 320 * 320]).reshape(-1, 4).mean(-1) > 0.05
    label = moved[0, : len(loud)] == 7
    assert (loud != label).sum() <= 2
    if factor == 1.0:
        torch.testing.assert_close(fast, audio)
