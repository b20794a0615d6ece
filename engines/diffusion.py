"""Gaussian diffusion with a cosine schedule, sampled by DDIM (`ditto.md` section 3).

Networks predict x0. 1000 training steps; abar(s) = cos^2(((s / 1000 + 0.008) / 1.008) * pi / 2), betas clipped to [0, 0.999].
Noise is never drawn from a shared generator: the caller passes it, or makes it with `window_noise` from (seed, window).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

TRAIN_STEPS = 1000


def alphas_cumprod() -> Tensor:
    """Cumulative product abar for timesteps 0..999, float32 (1000,), decreasing."""
    grid = np.arange(TRAIN_STEPS + 1, dtype=np.float64) / TRAIN_STEPS
    bar = np.cos((grid + 0.008) / 1.008 * math.pi / 2.0) ** 2
    betas = np.clip(1.0 - bar[1:] / bar[:-1], 0.0, 0.999)
    return torch.cumprod(1.0 - torch.from_numpy(betas).float(), dim=0)


@dataclass(frozen=True)
class DdimStep:
    """Coefficients of one DDIM step from `time` to `next_time`.

    `x_next = keep * x0 + direction * eps + sigma * noise` with `eps = eps_x * x - eps_x0 * x0`. At the last step `next_time` is
    -1 and `x_next = x0`.
    """

    time: int
    next_time: int
    eps_x: float
    eps_x0: float
    keep: float
    direction: float
    sigma: float


def ddim_steps(count: int, *, eta: float = 1.0) -> tuple[DdimStep, ...]:
    """Coefficients of `count` DDIM steps, 1 <= count <= 1000, first the noisiest.

    Times are the int-truncated linspace(-1, 999, count + 1), reversed and paired.
    """
    times = torch.linspace(-1, TRAIN_STEPS - 1, count + 1).int().tolist()[::-1]
    bar = alphas_cumprod().double()
    steps = []
    for time, next_time in zip(times[:-1], times[1:], strict=True):
        a = bar[time].item()
        eps_x, eps_x0 = math.sqrt(1.0 / (1.0 - a)), 1.0 / math.sqrt(1.0 / a - 1.0)
        if next_time < 0:
            steps.append(DdimStep(time, next_time, eps_x, eps_x0, 1.0, 0.0, 0.0))
            continue
        an = bar[next_time].item()
        sigma = eta * math.sqrt((1.0 - a / an) * (1.0 - an) / (1.0 - a))
        direction = math.sqrt(max(1.0 - an - sigma**2, 0.0))
        steps.append(DdimStep(time, next_time, eps_x, eps_x0, math.sqrt(an), direction, sigma))
    return tuple(steps)


def ddim_sample(
    predict_x0: Callable[[Tensor, int], Tensor], x_init: Tensor, step_noise: Tensor, steps: tuple[DdimStep, ...]
) -> Tensor:
    """Run the sampling loop.

    Args:
        predict_x0: `(x, step index) -> x0`, same shape.
        x_init: Starting noise, any shape.
        step_noise: (len(steps) - 1, *x_init.shape), the noise added after each step but the last.
        steps: From `ddim_steps`.

    Returns:
        The sample, shaped like `x_init`.
    """
    x = x_init
    for index, step in enumerate(steps):
        x0 = predict_x0(x, index)
        if step.next_time < 0:
            return x0
        eps = step.eps_x * x - step.eps_x0 * x0
        x = step.keep * x0 + step.direction * eps + step.sigma * step_noise[index]
    return x


def window_noise(seed: int, window: int, shape: tuple[int, ...]) -> Tensor:
    """Standard normal float32 noise that is a pure function of (seed, window): the Philox counter generator.

    Args:
        seed: Session seed, 0 <= seed < 2^64.
        window: Index of the motion window in the session.
        shape: Shape of the result.
    """
    generator = np.random.Generator(np.random.Philox(key=np.array([seed, window], dtype=np.uint64)))
    return torch.from_numpy(generator.standard_normal(shape, dtype=np.float32))
