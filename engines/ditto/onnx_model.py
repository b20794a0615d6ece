"""An ONNX file through onnxruntime, imported at first use: CUDA where the installed runtime offers it, else the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from engines.weights.file import WeightsFileError
from kernels.arrays import F32
from kernels.errors import LiveAnchorError, first_line

_CUDA: Final = "CUDAExecutionProvider"
_CPU: Final = "CPUExecutionProvider"


class OnnxRuntimeMissingError(LiveAnchorError):
    """onnxruntime is not installed."""

    code = "onnxruntime_missing"

    def __str__(self) -> str:
        """What to do."""
        return "onnxruntime is not installed; install the extra `onnx` (or onnxruntime-gpu on a machine with CUDA)"


class OnnxModel:
    """A float32 model with one input.

    Args:
        path: The file.
        device: `cpu`, or `cuda`, `cuda:1`: used where onnxruntime has its CUDA provider, else the CPU. Its arena is bounded by
            torch's own fraction of the GPU.
        threads: CPU threads of one call.

    Attributes:
        provider: The execution provider in use.
        input_shape: As the file states it; None for a free axis.

    Raises:
        OnnxRuntimeMissingError: onnxruntime is not installed.
        WeightsFileError: No such file, or not a usable ONNX model.
    """

    def __init__(self, path: Path, device: str = "cpu", threads: int = 1) -> None:
        self._path = path
        if not path.is_file():
            raise WeightsFileError(str(path), "", "no such file")
        runtime = _import_runtime()
        try:
            self._session = runtime.InferenceSession(
                str(path), sess_options=_options(runtime, threads), providers=_providers(runtime, device)
            )
        except _runtime_errors(runtime) as error:
            raise WeightsFileError(str(path), "", f"is no usable ONNX model ({first_line(error)})") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise WeightsFileError(str(path), "inputs", f"has {len(inputs)}, needed 1")
        self._input = inputs[0].name
        self.input_shape = tuple(size if isinstance(size, int) else None for size in inputs[0].shape)
        self.outputs = tuple(output.name for output in self._session.get_outputs())
        self.provider: str = self._session.get_providers()[0]

    @property
    def input_name(self) -> str:
        """Name of the input."""
        return str(self._input)

    def run(self, batch: F32) -> list[F32]:
        """Run the model on one input; all outputs in the file's order, float32.

        Raises:
            WeightsFileError: The model does not take this input, or fails.
        """
        runtime = _import_runtime()
        try:
            outputs: Sequence[Any] = self._session.run(None, {self._input: np.ascontiguousarray(batch, np.float32)})
        except _runtime_errors(runtime) as error:
            detail = f"the model fails ({first_line(error)})"
            raise WeightsFileError(str(self._path), self._input, detail) from error
        return [np.asarray(output, np.float32) for output in outputs]


def _import_runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise OnnxRuntimeMissingError from error
    return onnxruntime


def _providers(runtime: Any, device: str) -> list[Any]:
    if not device.startswith("cuda") or _CUDA not in runtime.get_available_providers():
        return [_CPU]
    index = int(device.partition(":")[2] or 0)
    options: dict[str, object] = {"device_id": index, "arena_extend_strategy": "kSameAsRequested"}
    share = torch.cuda.get_per_process_memory_fraction(index)
    if share < 1.0:  # a replica with a share of the GPU caps torch; onnxruntime has an arena of its own
        options["gpu_mem_limit"] = int(share * torch.cuda.get_device_properties(index).total_memory)
    return [(_CUDA, options), _CPU]


def _options(runtime: Any, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options


def _runtime_errors(runtime: Any) -> tuple[type[Exception], ...]:
    """Every error class that onnxruntime raises has `Exception` as its only common base."""
    state = runtime.capi.onnxruntime_pybind11_state
    names = (
        "Fail",
        "InvalidArgument",
        "InvalidGraph",
        "InvalidProtobuf",
        "NoSuchFile",
        "NotImplemented",
        "RuntimeException",
    )
    return (*(getattr(state, name) for name in names if hasattr(state, name)), ValueError, RuntimeError)
