"""Which way HuBERT runs. Without a GPU only the choice's refusals and fall-back can be seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import structlog
import torch

from benchmarks.ditto.checkpoint_folder import write_hubert
from engines.ditto.hubert import runtime
from engines.ditto.hubert.engine import EngineHubert
from engines.ditto.hubert.graph import probes
from engines.ditto.hubert.onnx import Hubert
from engines.ditto.hubert.runtime import hubert_runtime
from engines.runtimes.choice import RuntimeRefusedError
from engines.runtimes.verdicts import Verdict, Verdicts, part_of
from kernels.errors import ShapeError
from pipeline.families import find_family


def test_the_cpu_runs_the_file(tmp_path: Path) -> None:
    write_hubert(tmp_path)
    window = np.random.default_rng(0).normal(0, 0.1, 6480).astype(np.float32)
    with structlog.testing.capture_logs() as logs:
        encode_all = hubert_runtime(tmp_path)
    np.testing.assert_array_equal(encode_all([window])[0], Hubert(tmp_path).encode(window))
    [entry] = logs
    assert (entry["runtime"], entry["why"], entry["log_level"]) == ("eager", "runs on the CPU", "info")
    assert entry["onnxruntime"] == "CPUExecutionProvider"
    with pytest.raises(RuntimeRefusedError, match="compiled does not exist on cpu"):
        hubert_runtime(tmp_path, wanted="compiled")
    with pytest.raises(RuntimeRefusedError, match="tensorrt"):
        hubert_runtime(tmp_path, "cuda", wanted="tensorrt")


def test_a_file_of_another_network_still_runs_as_a_file(tmp_path: Path) -> None:
    """On a GPU too: the module is tried, refuses by name, and the file runs through onnxruntime."""
    write_hubert(tmp_path)
    with structlog.testing.capture_logs() as logs:
        encode_all = hubert_runtime(tmp_path, "cuda")
    assert encode_all([np.zeros(6480, np.float32)])[0].shape == (20, 1024)
    assert (logs[-1]["runtime"], logs[-1]["why"]) == ("eager", "alone works")
    assert logs[-1]["log_level"] == "warning" and "on the CPU" in logs[-1]["consequence"]
    assert "WeightsFileError" in logs[-1]["compiled"] and "MissingError" in logs[-1]["tensorrt"]
    with pytest.raises(RuntimeRefusedError, match="conv_layers.0.conv.weight: is missing"):
        hubert_runtime(tmp_path, "cuda", wanted="compiled")


@pytest.mark.parametrize("holds", [True, False])
def test_the_way_that_won_before_is_checked_and_found_out_anew_where_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    write_hubert(tmp_path)
    memory = Verdicts("hubert", [], "cpu", ["eager"], tmp_path / "verdicts")
    answer = part_of(torch.from_numpy(np.stack(Hubert(tmp_path).encode_all(probes()))))
    memory.keep(Verdict("eager", answer if holds else answer + 1.0))
    monkeypatch.setattr(runtime, "_memory", lambda folder, device: memory)
    with structlog.testing.capture_logs() as logs:
        encode_all = hubert_runtime(tmp_path, "cuda")
    assert encode_all([np.zeros(6480, np.float32)])[0].shape == (20, 1024)
    assert logs[-1]["why"] == ("won before" if holds else "alone works")
    assert (memory.find() is not None) is holds, "a verdict that does not hold is forgotten"


def test_mini_says_which_runtimes_it_has() -> None:
    with pytest.raises(RuntimeRefusedError, match="it has eager"):
        find_family("mini").load_motion(None, "cpu", "compiled")


class RowsOfLevels:
    """Stands for an engine: every row is the window's mean."""

    name, device = "tensorrt", torch.device("cpu")

    def __init__(self) -> None:
        self.calls: list[int] = []

    def run(self, *inputs: torch.Tensor) -> torch.Tensor:
        (windows,) = inputs
        self.calls.append(len(windows))
        return windows.mean(dim=1)[:, None, None].expand(-1, 20, 1024)


def test_an_engine_takes_as_many_windows_as_it_can() -> None:
    engine = RowsOfLevels()
    encoder = EngineHubert(engine, 2)
    rows = encoder.encode_all([np.full(6480, level, np.float32) for level in (0.5, 1.0, 2.0)])
    assert engine.calls == [2, 1] and [part.shape for part in rows] == [(20, 1024)] * 3
    assert [float(part[0, 0]) for part in rows] == [0.5, 1.0, 2.0]
    assert encoder.encode_all([]) == []
    with pytest.raises(ShapeError):
        encoder.encode_all([np.zeros(100, np.float32)])
