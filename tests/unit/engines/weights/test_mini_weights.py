"""What the embedded weights must do: close on /m b p/, open on open vowels, rest in silence, blink when asked."""

from __future__ import annotations

import wave

import numpy as np
import pytest
import torch

from engines.mini.load import load_engines, weights_folder
from engines.mini.motion_space import rest_motion
from engines.mini.rig import mouth_gap
from engines.motion_layout import EXP, unpack_motion
from kernels.arrays import F32
from pipeline.mini.audio_features import AudioFeatures
from pipeline.mini.load import make_speech_stages
from pipeline.mini.motion_diffusion import MotionDiffusion, initial_carry
from pipeline.session.blink_cue import blink_cue
from tests.support.paths import ROOT

SPEECH = ROOT / "docs" / "demo" / "speech.wav"
CLOSURES = (
    (1.658, 1.806), (2.186, 2.228), (2.428, 2.558), (3.654, 3.723), (3.859, 3.973), (5.346, 5.390), (5.678, 5.770),
    (6.131, 6.212), (7.237, 7.303), (7.464, 7.516), (8.035, 8.075),
)  # fmt: skip
"""Every /m b p/ of the sample in seconds, from the synthesiser."""
OPEN_VOWELS = ((1.106, 1.195), (1.938, 2.110), (4.424, 4.502), (5.390, 5.525))


@pytest.fixture(scope="module")
def stages() -> tuple[AudioFeatures, MotionDiffusion]:
    return make_speech_stages(load_engines())


def motion_of(stages: tuple[AudioFeatures, MotionDiffusion], pcm: F32, seed: int = 3) -> F32:
    audio, motion = stages
    rows, _ = audio.step(pcm, audio.initial_carry(), final=True)
    return motion.step(rows, initial_carry(seed, rest_motion().numpy()), final=True)[0].motion


def gap_of(motion: F32) -> F32:
    return mouth_gap(torch.from_numpy(motion[:, EXP]).unflatten(-1, (21, 3))).numpy()


@pytest.fixture(scope="module")
def speech() -> F32:
    with wave.open(str(SPEECH)) as reader:
        return np.frombuffer(reader.readframes(reader.getnframes()), "<i2").astype(np.float32) / 32768.0


@pytest.fixture(scope="module")
def spoken(stages: tuple[AudioFeatures, MotionDiffusion], speech: F32) -> F32:
    return motion_of(stages, speech)


def window(values: F32, span: tuple[float, float]) -> F32:
    return values[int(np.ceil((span[0] - 0.04) * 25)) : int((span[1] + 0.04) * 25) + 1]


def test_the_files_are_small() -> None:
    assert sum(path.stat().st_size for path in weights_folder().glob("*.safetensors")) < 25e6


@pytest.mark.parametrize("gain_db", [0, -20])
def test_lips_close_and_open_with_the_words(
    stages: tuple[AudioFeatures, MotionDiffusion], speech: F32, gain_db: int
) -> None:
    gap = gap_of(motion_of(stages, (speech * 10 ** (gain_db / 20)).astype(np.float32)))
    assert all(window(gap, span).min() < 1e-3 for span in CLOSURES)
    assert all(window(gap, span).max() > 0.2 for span in OPEN_VOWELS)


@pytest.mark.parametrize("level", [0.0, 10 ** (-50 / 20)])
def test_silence_and_faint_noise_keep_the_mouth_shut(
    stages: tuple[AudioFeatures, MotionDiffusion], level: float
) -> None:
    noise = np.random.default_rng(0).standard_normal(48_000).astype(np.float32) * level
    assert (gap_of(motion_of(stages, noise)) < 0.02).all()


def test_lids_follow_the_cue(spoken: F32) -> None:
    cue = blink_cue(3, 0, len(spoken))
    _, _, exp, _ = unpack_motion(torch.from_numpy(spoken))
    lid = exp[:, 11, 1].numpy()
    assert np.corrcoef(cue, lid)[0, 1] > 0.9 and lid[cue > 0.99].min() > 0.65 and cue.max() == 1.0


def test_the_head_moves_a_little_and_smoothly(spoken: F32) -> None:
    angles, shift, _, scale = unpack_motion(torch.from_numpy(spoken))
    assert 0.2 < float(angles.std(0).max()) < 3.0 and float(angles.abs().max()) < 6.0
    assert float(angles.diff(dim=0).abs().max()) < 1.0
    assert float(shift.abs().max()) < 0.03 and float((scale - 1.0).abs().max()) < 0.02


def test_joins_of_windows_do_not_show(spoken: F32) -> None:
    step = np.abs(np.diff(spoken[:, EXP], axis=0)).mean(axis=1)
    join = np.arange(1, len(spoken)) % 8 == 0
    assert step[join].mean() < 1.6 * step[~join].mean()


def test_silence_is_gone_from_the_pose_it_starts_in(stages: tuple[AudioFeatures, MotionDiffusion]) -> None:
    audio, motion = stages
    start = rest_motion().numpy()
    start[EXP.start + 1 + 3 * 2] = 0.3  # an open mouth
    rows, _ = audio.step(np.zeros(16_000, np.float32), audio.initial_carry(), final=True)
    gap = gap_of(motion.step(rows, initial_carry(0, start), final=True)[0].motion)
    assert gap[0] < 0.35 and (gap[6:] < 0.02).all()
