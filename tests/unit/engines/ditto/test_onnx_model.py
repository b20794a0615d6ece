"""Models through onnxruntime: errors that say nothing, and the memory of a GPU that several replicas share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch

from engines.ditto import onnx_model
from engines.weights.file import WeightsFileError
from kernels.errors import first_line


@pytest.mark.parametrize(
    ("said", "line"), [("one\ntwo", "one"), ("\n  one  \n", "one"), ("", "ValueError"), (" \n", "ValueError")]
)
def test_the_first_line_of_what_an_error_says(said: str, line: str) -> None:
    assert first_line(ValueError(said)) == line
    assert first_line(ValueError(said), named=True) == (line if line == "ValueError" else f"ValueError: {line}")


def test_long_words_are_cut() -> None:
    assert first_line(ValueError("x" * 500)) == "x" * 200 and first_line(ValueError("xyz"), 2) == "xy"


def test_a_library_that_fails_without_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")

    def fail(*args: object, **options: object) -> NoReturn:
        raise RuntimeError

    monkeypatch.setattr("onnxruntime.InferenceSession", fail)
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(WeightsFileError, match="RuntimeError"):
        onnx_model.OnnxModel(tmp_path / "m.onnx")


@pytest.mark.parametrize(("fraction", "limit"), [(0.25, 250), (1.0, None)])
def test_the_arena_is_as_large_as_the_share_of_the_gpu(
    monkeypatch: pytest.MonkeyPatch, fraction: float, limit: int | None
) -> None:
    runtime: Any = SimpleNamespace(get_available_providers=lambda: ["CUDAExecutionProvider"])
    asked: list[int] = []
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda index: asked.append(index) or fraction)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(total_memory=1000))
    [(name, options), fallback] = onnx_model._providers(runtime, "cuda:1")
    assert (name, fallback) == ("CUDAExecutionProvider", "CPUExecutionProvider")
    assert options["device_id"] == 1 and options.get("gpu_mem_limit") == limit and asked == [1]
    assert onnx_model._providers(runtime, "cpu") == ["CPUExecutionProvider"]
