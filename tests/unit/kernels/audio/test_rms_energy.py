"""Loudness per video frame with a window, and the speech mask's hysteresis."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels.audio.rms_energy import DEFAULT_OPEN_RMS, Hysteresis, hysteresis_mask, rms_energy, rms_energy_torch
from kernels.errors import InvalidInputError, ShapeError
from tests.support.triton import DEVICES, assert_close


def speech_like(rows: int, samples: int) -> torch.Tensor:
    """Noise of changing loudness on a DC offset, as float32."""
    rng = np.random.default_rng(8)
    loudness = np.exp(rng.uniform(-7, -1, (rows, samples // 320 + 1))).repeat(320, axis=1)[:, :samples]
    return torch.from_numpy((0.4 + loudness * rng.standard_normal((rows, samples))).astype(np.float32))


def float64_rms(pcm: torch.Tensor, frame: int, window: int) -> torch.Tensor:
    rows = []
    for row in pcm.double().numpy():
        starts = [i * frame - (window - frame) // 2 for i in range(len(row) // frame)]
        rows.append([row[max(s, 0) : s + window].std() for s in starts])
    return torch.tensor(rows, dtype=torch.float64).reshape(len(pcm), -1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "samples,frame,window",
    [(640 * 5, 640, 640), (640 * 5 + 333, 640, 1280), (1000, 47, 133), (640, 640, 4000), (50, 50, 51)],
)
def test_triton_and_reference_match_float64(device, samples, frame, window):
    from kernels.audio.rms_energy_triton import energy

    pcm = speech_like(3, samples)
    want = float64_rms(pcm, frame, window)
    assert_close(energy(pcm.to(device), frame, window), want, 1e-5, "triton")
    assert_close(rms_energy_torch(pcm, frame, window), want, 1e-7, "reference")
    assert_close(energy(pcm[0].to(device), frame, window), want[0], 1e-5, "one row")


@pytest.mark.gpu
def test_the_wrapper_stays_on_the_gpu():
    pcm = speech_like(2, 16_000).cuda()[:, ::2]
    got = rms_energy(pcm, 320, 960)
    assert got.is_cuda
    assert_close(got, float64_rms(pcm.cpu(), 320, 960), 1e-5)


def test_nothing_gives_nothing_and_bad_arguments_are_refused():
    assert rms_energy(torch.zeros(0)).shape == (0,)
    assert rms_energy(torch.zeros(2, 639)).shape == (2, 0)
    assert rms_energy(torch.zeros(2, 639), window_samples=1280).shape == (2, 0)
    with pytest.raises(ShapeError):
        rms_energy(torch.zeros(10, dtype=torch.float64))
    with pytest.raises(ShapeError):
        rms_energy(torch.zeros(1, 1, 640))
    with pytest.raises(InvalidInputError, match="frame_samples"):
        rms_energy(torch.zeros(640), 0)
    with pytest.raises(InvalidInputError, match="window_samples"):
        rms_energy(torch.zeros(640), 640, 639)


def test_the_mask_opens_at_the_published_threshold_and_closes_after_the_hold():
    assert DEFAULT_OPEN_RMS == 0.008
    rms = np.array([0.0079, 0.008, 0.0051, 0.0049, 0.0, 0.0, 0.0079], np.float32)
    speech, speaking, quiet = hysteresis_mask(rms, Hysteresis(hold_frames=2))
    assert speech.tolist() == [False, True, True, True, True, False, False]
    assert not speaking and quiet == 4
    again, _, _ = hysteresis_mask(rms[:1], Hysteresis(open_rms=0.007))
    assert again.tolist() == [True]
