"""The streaming speech encoder over ONNX files with the public file's signature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.ditto.checkpoint_folder import write_hubert
from benchmarks.ditto.formula import FILL, SALT
from engines.ditto.hubert.onnx import Hubert
from engines.weights.file import WeightsFileError
from kernels.errors import ShapeError


def windows(count: int) -> list[np.ndarray]:
    return [FILL.normal(f"hubert/{i}", (6480,), SALT, 0.1) for i in range(count)]


def test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    write_hubert(tmp_path)
    hubert = Hubert(tmp_path)
    (window,) = windows(1)
    kernel = FILL.normal("fake_hubert/weight", (1024, 1, 400), SALT, 0.2)[:, 0]
    expected = np.tanh(np.stack([kernel @ window[320 * j : 320 * j + 400] for j in range(20)]))
    rows = hubert.encode(window)
    assert rows.shape == (20, 1024) and rows.dtype == np.float32 and not hubert.batches
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_calls_are_stateless(tmp_path: Path) -> None:
    write_hubert(tmp_path)
    hubert = Hubert(tmp_path)
    first, second = windows(2)
    alone = hubert.encode(first)
    hubert.encode(second)
    np.testing.assert_array_equal(hubert.encode(first), alone)


@pytest.mark.parametrize("free_batch", [True, False])
def test_several_sessions_share_a_call_where_the_file_allows(tmp_path: Path, free_batch: bool) -> None:
    write_hubert(tmp_path, free_batch=free_batch)
    hubert = Hubert(tmp_path)
    assert hubert.batches == free_batch
    together = hubert.encode_all(windows(3))
    for window, rows in zip(windows(3), together, strict=True):
        np.testing.assert_allclose(rows, hubert.encode(window), atol=1e-5)
    assert hubert.encode_all([]) == []


def test_faults_are_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsFileError, match="hubert_streaming_fix_kv.onnx.*no such file"):
        Hubert(tmp_path)
    path = write_hubert(tmp_path)
    with pytest.raises(ShapeError, match="6480"):
        Hubert(tmp_path).encode(np.zeros(6400, np.float32))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(WeightsFileError, match="no usable ONNX model"):
        Hubert(tmp_path)
    path.write_bytes(b"not an onnx file")
    with pytest.raises(WeightsFileError, match="no usable ONNX model"):
        Hubert(tmp_path)
    write_hubert(tmp_path, name="audio")
    with pytest.raises(WeightsFileError, match="input_values"):
        Hubert(tmp_path)


def test_cuda_without_the_provider_falls_back_to_the_cpu(tmp_path: Path) -> None:
    write_hubert(tmp_path)
    assert Hubert(tmp_path, device="cuda").provider in ("CUDAExecutionProvider", "CPUExecutionProvider")
