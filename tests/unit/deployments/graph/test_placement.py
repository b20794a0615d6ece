"""What a replica holds of its GPU."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("ray.serve")

import torch

from deployments.config import ModelSettings
from deployments.graph import placement
from deployments.graph.calls import GpuMemory
from deployments.graph.placement import gpu_memory, take_place


@pytest.mark.parametrize("named", [None, "/elsewhere"])
def test_compiled_kernels_are_kept_with_the_other_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str | None
) -> None:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", named or "")
    if named is None:
        monkeypatch.delenv("TRITON_CACHE_DIR")
    monkeypatch.setattr(placement, "use_threads", lambda count: None)
    monkeypatch.setattr(placement, "assigned_gpu_share", lambda: 1.0)
    monkeypatch.setattr(placement, "wait_asleep", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert take_place(ModelSettings(device="auto")) == "cuda"
    assert os.environ["TRITON_CACHE_DIR"] == (named or str(tmp_path / "triton"))


def test_a_process_without_a_gpu_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert gpu_memory() is None


def test_memory_is_told_beside_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "is_initialized": lambda: True,
        "current_device": lambda: 0,
        "get_device_properties": lambda device: SimpleNamespace(total_memory=1000),
        "get_per_process_memory_fraction": lambda: 0.4,
        "memory_reserved": lambda: 30,
        "max_memory_reserved": lambda: 50,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    assert gpu_memory() == GpuMemory(total_bytes=1000, cap_bytes=400, reserved_bytes=30, peak_bytes=50)
