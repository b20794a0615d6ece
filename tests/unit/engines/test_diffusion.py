from __future__ import annotations

import pytest
import torch

from engines.diffusion import alphas_cumprod, ddim_sample, ddim_steps, window_noise


def test_noise_is_a_function_of_seed_and_window_and_nothing_else() -> None:
    first = window_noise(5, 3, (4, 2))
    torch.manual_seed(99)
    assert torch.equal(first, window_noise(5, 3, (4, 2)))
    assert not torch.equal(first, window_noise(5, 4, (4, 2)))
    assert not torch.equal(first, window_noise(6, 3, (4, 2)))
    assert window_noise(2**64 - 1, 0, (1,)).dtype == torch.float32


def test_noise_is_standard_normal() -> None:
    noise = window_noise(1, 1, (100_000,))
    assert abs(noise.mean().item()) < 0.02 and abs(noise.std().item() - 1.0) < 0.02


def test_the_schedule_falls_from_signal_to_noise() -> None:
    bar = alphas_cumprod()
    assert bar.shape == (1000,) and (bar.diff() <= 0).all()
    assert bar[0] > 0.999 and bar[-1] < 1e-6


@pytest.mark.parametrize("count", [1, 4, 5, 10])
def test_steps_keep_the_variance(count: int) -> None:
    bar = alphas_cumprod()
    steps = ddim_steps(count)
    assert steps[0].time == 999 and steps[-1].next_time == -1
    for step in steps[:-1]:
        assert step.direction**2 + step.sigma**2 == pytest.approx(1.0 - bar[step.next_time].item(), abs=1e-6)


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_a_perfect_predictor_is_reproduced(eta: float) -> None:
    steps = ddim_steps(6, eta=eta)
    wanted = torch.arange(4.0)
    noise = window_noise(0, 0, (6, 4))
    seen: list[int] = []

    def predict(x: torch.Tensor, index: int) -> torch.Tensor:
        seen.append(index)
        return wanted

    assert torch.equal(ddim_sample(predict, noise[-1], noise[:-1], steps), wanted)
    assert seen == list(range(6))


def test_without_eta_the_step_noise_has_no_effect() -> None:
    steps = ddim_steps(4, eta=0.0)
    start = window_noise(0, 0, (8,))
    results = [ddim_sample(lambda x, i: 0.5 * x, start, window_noise(s, 1, (3, 8)), steps) for s in (1, 2)]
    assert torch.equal(*results)
