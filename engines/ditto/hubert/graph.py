"""HuBERT on a GPU as CUDA graphs: windows of all sessions share a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from engines.networks.ditto.hubert_encoder import HubertEncoder
from engines.runtimes.cuda_graphs import BUCKETS, BucketedGraph
from kernels.arrays import F32
from kernels.errors import LiveAnchorError

WINDOW_SAMPLES: Final = 6480
MAX_ERROR: Final = 1e-2
"""Largest relative error against the file run by onnxruntime; 16 bits give some 2e-3."""
_PROBES: Final = (0.1, 0.001)
"""Levels of the noise that is compared."""
WAYS: Final = {
    f"{name}{' causal' if causal else ''}": (dtype, causal)
    for name, dtype in (("float16", torch.float16), ("float32", torch.float32))
    for causal in (False, True)
}
"""Types and masks of the module, in the order of preference."""


class HubertMismatchError(LiveAnchorError):
    """The torch module does not give what the file gives."""

    code = "hubert_mismatch"


class GraphedHubert:
    """The encoder in one type under CUDA graphs.

    Args:
        module: On the CPU; it is converted and moved.
        device: Where it runs; on the CPU nothing is captured.
        dtype: Type of weights and activations.
        buckets: Batch sizes that are captured.
    """

    def __init__(
        self,
        module: HubertEncoder,
        device: torch.device | str,
        dtype: torch.dtype = torch.float16,
        buckets: Sequence[int] = BUCKETS,
    ) -> None:
        self.dtype = dtype
        self._module = module.to(device=device, dtype=dtype)
        self._graph = BucketedGraph(self._run, _example, buckets, device)

    def prepare(self) -> None:
        """Capture every batch size now."""
        self._graph.prepare()

    def encode(self, windows: Tensor) -> Tensor:
        """float32 (B, 6480) on any device -> float32 (B, 20, width) on this one."""
        rows = self._graph(windows)
        assert isinstance(rows, Tensor)  # noqa: S101 - the function has one output
        return rows

    def encode_all(self, windows: Sequence[F32]) -> list[F32]:
        """Windows float32 (6480,) -> rows float32 (20, width)."""
        if not windows:
            return []
        return list(self.encode(torch.from_numpy(np.stack(windows))).cpu().numpy())

    def _run(self, samples: Tensor) -> Tensor:
        rows: Tensor = self._module(samples.to(self.dtype))
        return rows.float()


def verified_hubert(
    make: Callable[[], HubertEncoder],
    reference: Callable[[Sequence[F32]], list[F32]],
    device: torch.device | str,
    ways: Sequence[str] = tuple(WAYS),
) -> tuple[str, GraphedHubert]:
    """The first way that gives what the file gives on two windows of noise, and its name.

    Args:
        make: Reads the module afresh.
        reference: The file, run by onnxruntime.
        device: Where it shall run.
        ways: Names in `WAYS`, in the order of preference.

    Raises:
        HubertMismatchError: None does.
        LiveAnchorError: The file cannot be read as this module.
    """
    windows = probes()
    want = np.stack(reference(windows))
    errors: list[str] = []
    for way in ways:
        hubert = hubert_of(make, way, device)
        error = _relative(np.stack(hubert.encode_all(windows)), want)
        if error <= MAX_ERROR:
            return way, hubert
        errors.append(f"{way}: {error:.2g}")
    raise HubertMismatchError(f"relative errors against the file: {', '.join(errors)}; allowed {MAX_ERROR}")


def hubert_of(make: Callable[[], HubertEncoder], way: str, device: torch.device | str) -> GraphedHubert:
    """The module in the type and with the mask of a way, which is not compared with anything.

    Args:
        make: Reads the module afresh.
        way: A name in `WAYS`.
        device: Where it shall run.

    Raises:
        LiveAnchorError: The file cannot be read as this module.
    """
    dtype, causal = WAYS[way]
    module = make()
    module.set_causal(causal)
    return GraphedHubert(module, device, dtype)


def probes() -> list[F32]:
    """Two windows of noise, float32 (6480,), on which ways are compared."""
    generator = np.random.default_rng(0)
    return [(level * generator.standard_normal(WINDOW_SAMPLES)).astype(np.float32) for level in _PROBES]


def _relative(got: F32, want: F32) -> float:
    if got.shape != want.shape:
        return float("inf")
    error = float(np.linalg.norm((got - want).astype(np.float64)) / max(float(np.linalg.norm(want)), 1e-12))
    return error if np.isfinite(error) else float("inf")


def _example(batch: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return (0.1 * torch.randn(batch, WINDOW_SAMPLES, generator=generator),)
