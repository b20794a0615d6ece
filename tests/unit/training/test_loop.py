from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from training.loop import Loop, LoopSettings, Losses, rate_at


def linear(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(4, 1)


def objective(module: nn.Module) -> object:
    def losses(step: int) -> Losses:
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        return {"error": (module(x)[:, 0] - x.sum(1)).square().mean()}

    return losses


def settings(steps: int, **more: float) -> LoopSettings:
    return LoopSettings(steps, learning_rate=0.05, warmup_steps=5, ema_decay=0.9, log_every=1000, **more)


def test_it_learns_and_the_averaged_weights_are_close(tmp_path: Path) -> None:
    module = linear()
    loop = Loop({"m": module}, settings(300), tmp_path)
    loop.run(objective(module))  # type: ignore[arg-type]
    assert loop.finished
    loop.use_averaged()
    torch.testing.assert_close(module.weight, torch.ones(1, 4), atol=0.05, rtol=0)


def test_a_stopped_run_resumes_where_it_was(tmp_path: Path) -> None:
    module = linear()
    Loop({"m": module}, settings(40, max_seconds=0.0), tmp_path).run(objective(module))  # type: ignore[arg-type]
    again = linear(seed=9)
    loop = Loop({"m": again}, settings(40), tmp_path)
    torch.testing.assert_close(again.weight, module.weight)
    loop.run(objective(again))  # type: ignore[arg-type]
    finished = Loop({"m": linear(5)}, settings(40), tmp_path)
    assert finished.finished and finished.step == 40


def test_steps_are_fitted_to_the_time(tmp_path: Path) -> None:
    module = linear()
    loop = Loop({"m": module}, settings(10_000_000, fit_seconds=0.4), tmp_path)
    loop.run(objective(module))  # type: ignore[arg-type]
    assert loop.finished and 60 < loop.total_steps < 10_000_000
    assert Loop({"m": linear()}, settings(5), tmp_path).total_steps == loop.total_steps


def test_first_steps_of_another_kind_are_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, now = linear(), 0.0
    learn: Any = objective(module)
    monkeypatch.setattr("training.loop.time", SimpleNamespace(monotonic=lambda: now))

    def losses(step: int) -> Losses:
        nonlocal now
        now += 0.001 if step < 150 else 0.01
        return learn(step)  # type: ignore[no-any-return]

    loop = Loop({"m": module}, settings(10_000, fit_seconds=5.0, fit_after=150), tmp_path)
    loop.run(losses)
    assert now == pytest.approx(5.0, abs=0.1)


def test_the_rate_rises_and_falls() -> None:
    rates = [rate_at(step, settings(100), 100) for step in range(100)]
    assert rates[0] < rates[4] == pytest.approx(0.05) and rates[-1] < 0.001
    assert max(rates) <= 0.05
