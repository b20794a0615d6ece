"""The chest breathes, silent or speaking, and never jumps."""

import numpy as np
import pytest

from engines.mini.load import make_engines, random_networks
from engines.mini.motion_limits import BREATH_LIMIT, KNEE, limit_motion
from engines.mini.motion_space import rest_motion
from pipeline.mini.breath import BREATH_COLUMN, HEIGHT, breath, breath_after
from pipeline.mini.idle_motion import idle_motion
from pipeline.mini.load import make_speech_stages
from pipeline.mini.motion_diffusion import initial_carry
from pipeline.types import FeatureRows


def test_a_breath_takes_about_four_seconds() -> None:
    wave = breath(3, np.arange(0, 25 * 60))
    crossings = np.flatnonzero((wave[1:] > 0) & (wave[:-1] <= 0))
    assert 12 <= len(crossings) <= 18
    assert 1.6 * HEIGHT < np.ptp(wave) < 2.6 * HEIGHT
    assert np.abs(wave).max() < KNEE * BREATH_LIMIT, "no limit touches it"


def test_seeds_breathe_out_of_step() -> None:
    frames = np.arange(200)
    waves = np.stack([breath(seed, frames) for seed in range(8)])
    assert np.ptp(waves[:, 0]) > HEIGHT and np.ptp(waves[:, 150]) > HEIGHT


def test_the_silent_face_breathes_and_nothing_else_moves_by_it() -> None:
    motion = idle_motion(5, -40, 200)
    np.testing.assert_allclose(motion[:, BREATH_COLUMN], breath(5, np.arange(-40, 160)), atol=1e-7)
    import torch

    limited = limit_motion(torch.from_numpy(motion))
    still = motion.copy()
    still[:, BREATH_COLUMN] = 0.0
    without = limit_motion(torch.from_numpy(still))
    assert torch.equal(limited.gap, without.gap) and torch.equal(limited.lids, without.lids)
    assert float(limited.breath.abs().max()) > 0.8 * HEIGHT and float(without.breath.abs().max()) == 0.0


def test_speech_begins_at_the_height_that_was_seen() -> None:
    frames = breath_after(0.005, 9, 100, 60)
    steps = np.abs(np.diff(np.concatenate([[0.005], frames])))
    assert steps.max() < 0.002
    np.testing.assert_allclose(frames[-10:], breath(9, np.arange(150, 160)), atol=1e-4)


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_pieces_breathe_as_the_whole(cut: int) -> None:
    whole = breath_after(-0.004, 2, 50, 24)
    shown, pieces = -0.004, []
    for start in range(0, 24, cut):
        pieces.append(breath_after(shown, 2, 50 + start, cut))
        shown = float(pieces[-1][-1])
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-7)


def test_the_networks_never_see_it() -> None:
    stage = make_speech_stages(make_engines(random_networks()))[1]
    rows = FeatureRows(np.random.default_rng(0).standard_normal((32, 128)).astype(np.float32), 50, 0)
    rest = rest_motion().numpy()
    lifted = rest.copy()
    lifted[BREATH_COLUMN] = 0.006
    low, high = (stage.step(rows, initial_carry(4, shown), final=True)[0].motion for shown in (rest, lifted))
    others = np.arange(265) != BREATH_COLUMN
    np.testing.assert_array_equal(low[:, others], high[:, others])
    assert np.abs(low[:, BREATH_COLUMN] - high[:, BREATH_COLUMN]).max() > 0.004
