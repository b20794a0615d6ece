"""Which device a replica uses, and how much of it: a GPU share is bookkeeping in Ray, so the replica caps itself."""

from __future__ import annotations

import os
from typing import Any

import ray
import structlog
import torch

from deployments.config import ModelSettings
from deployments.graph.calls import GpuMemory
from engines.runtimes.sleeping_waits import wait_asleep
from engines.weights.home import liveanchor_home
from kernels.errors import LiveAnchorError
from kernels.threads import use_threads

_log = structlog.get_logger(__name__)


class NoGpuError(LiveAnchorError):
    """The settings insist on CUDA and this replica has none.

    Args:
        reason: What is missing.
    """

    code = "no_gpu"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say it in one line, with the reason and what to do."""
        return f"device is cuda, but {self.reason}; give the deployment num_gpus > 0 on a GPU node, or set device: auto"


def in_replica() -> bool:
    """Whether this process is an actor of a Ray cluster, and not a driver or no part of one."""
    if not ray.is_initialized():
        return False
    context: Any = ray.get_runtime_context()
    return context.get_actor_id() is not None


def assigned_gpu_share() -> float:
    """The GPU share that Ray reserved for this replica; 0 outside a replica."""
    if not in_replica():
        return 0.0
    context: Any = ray.get_runtime_context()
    return float(context.get_assigned_resources().get("GPU", 0.0))


def choose_device(wanted: str, share: float, cuda_available: bool) -> str:
    """`cpu` or `cuda`.

    Args:
        wanted: `auto`, `cpu` or `cuda`.
        share: GPU share of the replica.
        cuda_available: Whether torch finds a GPU.

    Raises:
        NoGpuError: `cuda` is wanted and cannot be had.
    """
    if wanted == "cpu":
        return "cpu"
    missing = "torch finds no GPU" if not cuda_available else "the replica has no GPU share" if share <= 0 else ""
    if not missing:
        return "cuda"
    if wanted == "cuda":
        raise NoGpuError(missing)
    return "cpu"


def take_place(settings: ModelSettings) -> str:
    """Set this process's threads, memory cap, way of waiting and cache of kernels, and say which device to use.

    Returns:
        `cpu` or `cuda`.

    Raises:
        NoGpuError: See `choose_device`.
    """
    use_threads(settings.threads)
    share = assigned_gpu_share()
    device = choose_device(settings.device, share, torch.cuda.is_available())
    asleep = device == "cuda" and wait_asleep()
    if device == "cuda":
        # its default lies in the home directory, which a pod loses with itself
        os.environ.setdefault("TRITON_CACHE_DIR", str(liveanchor_home() / "triton"))
    if device == "cuda" and share < 1.0:
        torch.cuda.set_per_process_memory_fraction(share)
    _log.info("placed", device=device, gpu_share=share, threads=settings.threads, waits_asleep=asleep)
    return device


def gpu_memory() -> GpuMemory | None:
    """What this process holds of its GPU; None where it has not used one."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own, without types
        return None
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return GpuMemory(
        total_bytes=total,
        cap_bytes=round(total * torch.cuda.get_per_process_memory_fraction()),
        reserved_bytes=torch.cuda.memory_reserved(),
        peak_bytes=torch.cuda.max_memory_reserved(),
    )
