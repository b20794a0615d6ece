"""A small resumable training loop: AdamW, warm-up and cosine decay by step, averaged weights, checkpoints without pickle."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

Losses = Mapping[str, Tensor]
_FIT_FROM, _FIT_TO = 20, 60


@dataclass(frozen=True)
class LoopSettings:
    """How long and how fast.

    Attributes:
        steps: Steps of the whole training, over all resumed runs.
        learning_rate: Peak rate.
        warmup_steps: Steps of linear rise.
        weight_decay: AdamW's, on matrices only.
        ema_decay: Decay of the averaged weights.
        clip_norm: Largest gradient norm.
        log_every: Steps between printed lines.
        max_seconds: Stop early, resumable, after this time.
        fit_seconds: Where not None, `steps` is replaced by what this machine does in that time (measured on steps 20 to 60), so
            that the rate still falls to its end; the number found is printed and kept in `Loop.total_steps`.
        fit_after: First steps that take another time than the rest; the measure begins behind them.
    """

    steps: int
    learning_rate: float = 1e-3
    warmup_steps: int = 200
    weight_decay: float = 0.02
    ema_decay: float = 0.998
    clip_norm: float = 1.0
    log_every: int = 200
    max_seconds: float = math.inf
    fit_seconds: float | None = None
    fit_after: int = 0


def rate_at(step: int, settings: LoopSettings, total_steps: int) -> float:
    """Learning rate of a step: linear warm-up, then half a cosine down to 1 % of the peak."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    progress = (step - settings.warmup_steps) / max(total_steps - settings.warmup_steps, 1)
    return settings.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0))))


class Loop:
    """Trains modules until `settings.steps`.

    Args:
        modules: Everything with parameters, by name; the names prefix checkpoint keys.
        settings: How long and how fast.
        folder: Checkpoint folder; a checkpoint found there is resumed.
    """

    def __init__(self, modules: Mapping[str, nn.Module], settings: LoopSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._parameters = {
            f"{name}.{key}": value for name, module in modules.items() for key, value in module.named_parameters()
        }
        matrices = [value for value in self._parameters.values() if value.dim() >= 2]
        vectors = [value for value in self._parameters.values() if value.dim() < 2]
        fused = next(iter(self._parameters.values())).is_cuda
        self._optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=settings.learning_rate,
            betas=(0.9, 0.98),
            fused=fused,
        )
        self._averaged = {key: value.detach().clone() for key, value in self._parameters.items()}
        self.step = 0
        self.total_steps = settings.steps
        self._resume()

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self.total_steps

    def run(self, losses_of: Callable[[int], Losses]) -> None:
        """Train until all steps are done or the time is up, then save a checkpoint.

        Args:
            losses_of: Step -> named losses; their sum is minimised.
        """
        settings = self._settings
        start = mark = time.monotonic()
        sums: dict[str, Tensor] = {}
        first = self.step
        fitted = -1.0
        while not self.finished and time.monotonic() - start < settings.max_seconds:
            for group in self._optimizer.param_groups:
                group["lr"] = rate_at(self.step, settings, self.total_steps)
            losses = losses_of(self.step)
            total = torch.stack(list(losses.values())).sum()
            self._optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(total)
            nn.utils.clip_grad_norm_(self._parameters.values(), settings.clip_norm)
            self._optimizer.step()
            self._average()
            for key, value in losses.items():
                sums[key] = sums.get(key, torch.zeros_like(value)) + value.detach()
            self.step += 1
            if settings.fit_seconds is not None:
                fitted = self._fit_steps(settings.fit_seconds, fitted, start)
            if self.step % settings.log_every == 0:
                count = min(settings.log_every, self.step - first)
                text = " ".join(f"{key} {value.item() / count:.4f}" for key, value in sums.items())
                now = time.monotonic()
                print(
                    f"step {self.step}/{self.total_steps} {(now - mark) / count * 1e3:.1f} ms/step {text}", flush=True
                )
                sums, mark = {}, now
        self._save()

    def _fit_steps(self, seconds: float, mark: float, start: float) -> float:
        """Measure the speed between two early steps and set `total_steps`; returns the mark for the next call."""
        step = self.step - self._settings.fit_after
        if step not in (_FIT_FROM, _FIT_TO):
            return mark
        if next(iter(self._parameters.values())).is_cuda:
            torch.cuda.synchronize()
        now = time.monotonic()
        if step == _FIT_FROM:
            return now
        left = seconds - (now - start)
        self.total_steps = self.step + max(int(left / (now - mark) * (_FIT_TO - _FIT_FROM)), 1)
        print(f"{self.total_steps} steps fit into {seconds:.0f} s", flush=True)
        return mark

    @torch.no_grad()
    def use_averaged(self) -> None:
        """Put the averaged weights into the modules."""
        for key, value in self._parameters.items():
            value.copy_(self._averaged[key])

    @torch.no_grad()
    def _average(self) -> None:
        decay = min(self._settings.ema_decay, (1.0 + self.step) / (10.0 + self.step))
        torch._foreach_lerp_(list(self._averaged.values()), list(self._parameters.values()), 1.0 - decay)

    def _save(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        header = {"step": str(self.step), "total_steps": str(self.total_steps)}
        moments: dict[str, Tensor] = {}
        for key, value in self._parameters.items():
            for name in ("exp_avg", "exp_avg_sq"):
                state = self._optimizer.state[value].get(name)
                if state is not None:
                    moments[f"{key}|{name}"] = state.bfloat16()
        files = {"model": {key: value.detach() for key, value in self._parameters.items()}}
        files |= {"averaged": self._averaged, "adam": moments}
        for name, tensors in files.items():
            save_file(
                {k: v.contiguous().cpu() for k, v in tensors.items()}, self._folder / f"{name}.safetensors", header
            )

    @torch.no_grad()
    def _resume(self) -> None:
        path = self._folder / "adam.safetensors"
        if not path.exists():
            return
        with safe_open(str(path), framework="pt") as file:
            header = file.metadata()
        self.step, self.total_steps = int(header["step"]), int(header["total_steps"])
        model, averaged = (load_file(self._folder / f"{name}.safetensors") for name in ("model", "averaged"))
        moments = load_file(path)
        for key, value in self._parameters.items():
            value.copy_(model[key])
            self._averaged[key].copy_(averaged[key])
            if f"{key}|exp_avg" in moments:
                self._optimizer.state[value] = {
                    "step": torch.tensor(float(self.step), device=value.device if value.is_cuda else "cpu"),
                    "exp_avg": moments[f"{key}|exp_avg"].to(value),
                    "exp_avg_sq": moments[f"{key}|exp_avg_sq"].to(value),
                }
        print(f"resumed {self._folder} at step {self.step}", flush=True)
