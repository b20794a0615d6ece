"""MuseTalk's networks, narrow: what goes in, what comes out, and that frames and windows do not see each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.musetalk.checkpoints import load_taesd, load_unet, load_vae, load_whisper
from engines.musetalk.libraries import library
from engines.musetalk.log_mel import LogMel
from engines.musetalk.painter import LATENT_SCALE, LatentReader, Painter
from engines.musetalk.speech import SpeechEncoder
from kernels.errors import ShapeError
from tests.support.musetalk import narrow_folder


@pytest.fixture(autouse=True)
def no_gradients() -> object:
    with torch.inference_mode():
        yield


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_frames_of_a_batch_do_not_see_each_other() -> None:
    folder = narrow_folder()
    painter = Painter(load_unet(folder), load_taesd(folder))
    latents, tokens = noise(5, 8, 32, 32), noise(5, 50, 384, seed=1)
    batch = painter(latents, tokens)
    assert batch.shape == (5, 256, 256, 3) and batch.dtype == torch.uint8 and float(batch.float().std()) > 2
    for i in range(5):
        alone = painter(latents[i : i + 1], tokens[i : i + 1])
        assert (alone[0].int() - batch[i].int()).abs().max() <= 1
    other = painter(latents[:1], tokens[1:2])
    assert (other[0].int() - batch[0].int()).abs().max() > 1, "speech changes the picture"


def test_the_painter_is_the_library_s_chain_at_step_zero() -> None:
    folder = narrow_folder()
    unet, vae, taesd = load_unet(folder), load_vae(folder), load_taesd(folder)
    latents, tokens = noise(1, 8, 32, 32), noise(1, 50, 384, seed=1)
    painted = unet(latents, torch.tensor(0), encoder_hidden_states=tokens).sample
    for decoder, picture in ((taesd, taesd(painted)), (vae, vae.decode(painted / LATENT_SCALE).sample)):
        want = ((picture / 2 + 0.5).clamp(0, 1) * 255).round().permute(0, 2, 3, 1)
        assert torch.equal(Painter(unet, decoder)(latents, tokens).float(), want)


def test_an_avatar_s_latents_are_the_mean_and_come_out_the_same() -> None:
    vae = load_vae(narrow_folder())
    reader = LatentReader(vae)
    face = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 256, 256, 3), np.uint8))
    latents = reader.read(face)
    assert latents.shape == (1, 8, 32, 32) and torch.equal(latents, reader.read(face))
    whole = face.permute(0, 3, 1, 2).float() / 127.5 - 1
    torch.testing.assert_close(latents[:, 4:], vae.encode(whole).latent_dist.mode() * LATENT_SCALE)
    black = whole.clone()
    black[:, :, 128:] = -1
    torch.testing.assert_close(latents[:, :4], vae.encode(black).latent_dist.mode() * LATENT_SCALE)


def speech(seconds: float, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(int(16_000 * seconds))).astype(np.float32)


def test_rows_are_all_five_hidden_states_of_every_20_ms() -> None:
    encoder = load_whisper(narrow_folder())
    made = SpeechEncoder(encoder)
    assert made.row_dim == 1920 and made.most_rows == 150
    [rows] = made.encode([speech(1.01)])
    assert rows.shape == (50, 1920) and rows.dtype == np.float32 and np.isfinite(rows).all()
    last = rows[:, 4 * 384 :]
    normed = (last - encoder.layer_norm.bias.numpy()) / encoder.layer_norm.weight.numpy()
    np.testing.assert_allclose(normed.mean(axis=1), 0, atol=1e-4)
    np.testing.assert_allclose(normed.std(axis=1), 1, atol=1e-3)
    assert np.abs(rows[:, 384:768] - rows[:, :384]).max() > 1e-3, "states of different layers differ"


def test_windows_of_a_batch_do_not_hear_each_other() -> None:
    made = SpeechEncoder(load_whisper(narrow_folder()))
    windows = [speech(0.6, seed=1), speech(2.0, seed=2)]
    both = made.encode(windows)
    for window, rows in zip(windows, both, strict=True):
        np.testing.assert_allclose(made.encode([window])[0], rows, atol=2e-4)
    assert made.encode([]) == []
    with pytest.raises(ShapeError, match="window"):
        made.encode([speech(3.1)])


def test_the_spectrum_is_the_library_s() -> None:
    extractor = library("transformers").WhisperFeatureExtractor(feature_size=80, chunk_length=3)
    made = LogMel(torch.from_numpy(extractor.mel_filters), extractor.n_samples)
    windows = [np.zeros(16_000, np.float32), speech(1.3, seed=1), speech(2.99, seed=2), speech(3.0, seed=3)]
    for window in windows:
        want = extractor([window], sampling_rate=16_000, return_tensors="pt").input_features
        got = made(torch.from_numpy(window)[None])
        assert got.shape == want.shape == (1, 80, 300)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=0)
    np.testing.assert_allclose(made(torch.zeros(1, 16_000)), -1.5, err_msg="silence as the reference hears it")
