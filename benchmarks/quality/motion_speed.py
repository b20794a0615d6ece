"""How long the `mini` family needs from PCM to motion, per frame, on one CPU thread.

Baseline, in the same run: the same networks without hoisting, two guidance passes and 10 steps, the way the reference samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from engines.diffusion import ddim_sample, ddim_steps, window_noise
from engines.mini.load import MiniNetworks, load_networks, make_engines, random_networks
from engines.mini.motion_space import rest_motion
from engines.mini.window_sampler import WindowSampler
from engines.weights.file import WeightsFileError
from pipeline.mini.load import HOP_FRAMES, make_speech_stages
from pipeline.mini.motion_diffusion import initial_carry
from pipeline.types import ROWS_PER_FRAME, FeatureRows

BASELINE_STEPS = 10
BASELINE_GUIDANCE = 2.0


@dataclass(frozen=True)
class Timing:
    """Milliseconds per frame.

    Attributes:
        median: Over the measured windows.
        p5: Fast end.
        p95: Slow end.
        n: Windows measured.
    """

    median: float
    p5: float
    p95: float
    n: int


def _time(call: Callable[[], object], windows: int, frames: int) -> Timing:
    for _ in range(3):
        call()
    taken = []
    for _ in range(windows):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3 / frames)
    p5, median, p95 = np.percentile(taken, (5, 50, 95))
    return Timing(float(median), float(p5), float(p95), windows)


def plain_window(networks: MiniNetworks) -> Callable[[], object]:
    """Make a function that does one motion window the reference's way: nothing hoisted, both branches on their own, 10 steps."""
    lmdm, space = networks.lmdm, networks.space
    sampler = WindowSampler(lmdm, space, steps=BASELINE_STEPS)
    steps = ddim_steps(BASELINE_STEPS)
    past = lmdm.seq_frames - HOP_FRAMES
    known = space.normalise(rest_motion().expand(1, past + 1, -1))
    cond = torch.zeros(1, lmdm.seq_frames, lmdm.cond_dim)
    noise = space.noise(window_noise(0, 0, (sampler.steps, 1, HOP_FRAMES, space.dofs)))

    def predict(x: torch.Tensor, index: int) -> torch.Tensor:
        window = torch.cat([known[:, 1:], x], dim=1)
        t = torch.tensor([steps[index].time])
        branches = []
        for guided in (False, True):
            cache = lmdm.encode_condition(known[:, 0], cond, t, guided=guided)
            branches.append(lmdm.denoise_branches(window, 0, cache)[-1:])
        conditional, unconditional = branches
        mixed = unconditional + BASELINE_GUIDANCE * (conditional - unconditional)
        return space.project(mixed)[:, past:]

    def call() -> object:
        with torch.inference_mode():
            return ddim_sample(predict, noise[-1], noise[:-1], steps)

    return call


def measure(windows: int = 40) -> dict[str, float]:
    """Measure with the embedded weights (random ones where there are none), one thread.

    Returns:
        `value` (features and motion, ms per frame), `p5`, `p95`, `n`, `features_ms`, `motion_ms`, `baseline_value` (features and
        the plain window).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        try:
            networks = load_networks()
        except WeightsFileError:
            networks = random_networks()
        audio, motion = make_speech_stages(make_engines(networks))
        window = (np.random.default_rng(0).standard_normal(audio.window_samples) * 0.05).astype(np.float32)
        rows = FeatureRows(audio.window(window, 0).rows, 50, 0)
        carry = initial_carry(0, rest_motion().numpy())

        def features() -> FeatureRows:
            return audio.window(window, 0)

        def both() -> object:
            made = FeatureRows(features().rows, rows.rate_hz, 0)
            if len(made.rows) != HOP_FRAMES * ROWS_PER_FRAME:
                raise AssertionError("a window is one hop")
            return motion.step(made, carry)

        total = _time(both, windows, HOP_FRAMES)
        only_features = _time(features, windows, HOP_FRAMES)
        plain = _time(plain_window(networks), max(windows // 4, 3), HOP_FRAMES)
    finally:
        torch.set_num_threads(threads)
    return {
        "value": total.median,
        "p5": total.p5,
        "p95": total.p95,
        "n": float(total.n),
        "features_ms": only_features.median,
        "motion_ms": total.median - only_features.median,
        "baseline_value": plain.median + only_features.median,
    }


if __name__ == "__main__":
    print({key: round(value, 3) for key, value in measure().items()})
