"""Is an engine the network? Compares the two on the same inputs and refuses an engine that is off."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from engines.tensorrt.errors import EngineOffError
from engines.tensorrt.spec import EngineSpec, Gate

BATCHES: Final = (1, 3)
"""Batch sizes that are compared: the smallest, and one that is neither tuned for nor a power of two."""
RunAll = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Agreement:
    """How near an output is to the reference.

    Attributes:
        relative_error: |a - b| / |b|, Euclidean; infinite where a value is not finite.
        cosine: Between the two as vectors.
        psnr_db: With MAX = 1.
    """

    relative_error: float
    cosine: float
    psnr_db: float

    def passes(self, gate: Gate) -> bool:
        """Whether a gate lets it through."""
        near = self.relative_error <= gate.max_relative_error and self.cosine >= gate.min_cosine
        return near and (gate.min_psnr_db is None or self.psnr_db >= gate.min_psnr_db)

    def __str__(self) -> str:
        """For people."""
        return f"relative error {self.relative_error:.2e}, cosine {self.cosine:.7f}, {self.psnr_db:.1f} dB"


def agreement(got: Tensor, reference: Tensor) -> Agreement:
    """Compare two tensors of one shape, in float64."""
    a, b = got.detach().double().flatten().cpu(), reference.detach().double().flatten().cpu()
    if a.shape != b.shape or not bool(torch.isfinite(a).all()):
        return Agreement(math.inf, -1.0, -math.inf)
    difference = a - b
    norm_a, norm_b = float(a.norm()), float(b.norm())
    error = float(difference.norm()) / norm_b if norm_b else (0.0 if norm_a == 0.0 else math.inf)
    cosine = float(a @ b) / (norm_a * norm_b) if norm_a and norm_b else (1.0 if norm_a == norm_b else 0.0)
    mean_square = float(difference.square().mean())
    return Agreement(error, cosine, math.inf if mean_square == 0.0 else -10.0 * math.log10(mean_square))


def worst(agreements: list[Agreement]) -> Agreement:
    """The worst of each measure."""
    return Agreement(
        max(one.relative_error for one in agreements),
        min(one.cosine for one in agreements),
        min(one.psnr_db for one in agreements),
    )


def compare(
    spec: EngineSpec,
    run_all: RunAll,
    module: nn.Module,
    inputs: tuple[Tensor, ...] | None = None,
    device: torch.device | str = "cuda",
) -> Agreement:
    """Run engine and network on the same inputs.

    Args:
        spec: The engine's.
        run_all: Runs the engine.
        module: The float32 network; it is copied to `device`.
        inputs: None: random ones of the spec, several batch sizes.
        device: Where both run.

    Returns:
        The worst over outputs and batches.
    """
    cases = [inputs] if inputs is not None else [spec.random_inputs(b, seed=b, device=device) for b in BATCHES]
    reference = copy.deepcopy(module).to(device)
    found: list[Agreement] = []
    for case in cases:
        engine = run_all(*case)
        with torch.inference_mode(), _without_tf32():
            made = reference(*(value.to(device).float() for value in case))
        expected = (made,) if isinstance(made, Tensor) else tuple(made)
        found.extend(agreement(a, b) for a, b in zip(engine, expected, strict=True))
    return worst(found)


def verify(
    spec: EngineSpec,
    run_all: RunAll,
    module: nn.Module,
    inputs: tuple[Tensor, ...] | None = None,
    device: torch.device | str = "cuda",
) -> Agreement:
    """Compare, and refuse an engine that is off.

    Arguments and result as in `compare`.

    Raises:
        EngineOffError: The engine's numbers are not the network's.
    """
    found = compare(spec, run_all, module, inputs, device)
    if not found.passes(spec.gate):
        gate = spec.gate
        needed = f"at most {gate.max_relative_error:.0e}, at least {gate.min_cosine}"
        if gate.min_psnr_db is not None:
            needed += f", at least {gate.min_psnr_db} dB"
        raise EngineOffError(spec.name, f"its numbers are not the network's: {found} (needed {needed}); it is not used")
    return found


class _without_tf32:  # noqa: N801 - reads as a statement
    """The reference is float32, whatever products the process allows elsewhere."""

    def __enter__(self) -> None:
        self._before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    def __exit__(self, *_: object) -> None:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = self._before
