"""fp8 through a quantised graph: NVIDIA's modelopt puts quantise / dequantise pairs into an ONNX file, TensorRT follows its types.

Off by default: it needs calibration inputs, and a gate of its own decides whether the engine serves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.tensorrt.catalogue import EngineSpec, Gate
from engines.tensorrt.errors import EngineExportError
from engines.tensorrt.export import Graph

FP8_GATE = Gate(5e-2, min_cosine=0.999)


def quantise_fp8(spec: EngineSpec, graph: Graph, calibration: Sequence[tuple[Tensor, ...]]) -> Graph:
    """A graph with fp8 products.

    Args:
        spec: The engine's.
        graph: What `export` made.
        calibration: Real inputs, several tuples; their ranges decide the scales.

    Raises:
        EngineExportError: modelopt is not installed or fails, or there is nothing to calibrate with.
    """
    if not calibration:
        raise EngineExportError(spec.name, "fp8 needs calibration inputs; give some real ones")
    quantize, onnx = _import_modelopt(spec.name)
    data = {
        port.name: torch.cat(
            [inputs[place].detach().cpu() for inputs in calibration], spec.batch_axis_of[port.name]
        ).numpy()
        for place, port in enumerate(spec.inputs)
    }
    with tempfile.TemporaryDirectory(prefix="liveanchor-fp8-") as folder:
        source, target = Path(folder) / "graph.onnx", Path(folder) / "graph.fp8.onnx"
        source.write_bytes(graph.onnx)
        try:
            quantize(
                onnx_path=str(source),
                quantize_mode="fp8",
                calibration_data=data,
                output_path=str(target),
                high_precision_dtype="fp16",
            )
            made = target.read_bytes()
        except (RuntimeError, ValueError, TypeError, OSError, AssertionError) as error:
            raise EngineExportError(spec.name, f"modelopt cannot quantise it: {str(error)[:300]}") from error
    operators = {node.op_type for node in onnx.load_from_string(made).graph.node}
    if "DequantizeLinear" not in operators:
        raise EngineExportError(spec.name, "modelopt quantised nothing in this graph")
    return Graph(spec.name, made)


def fp8_spec(spec: EngineSpec) -> EngineSpec:
    """The spec of an fp8 engine: another name in the cache, a wider gate."""
    return replace(spec, name=f"{spec.name}-fp8", gate=FP8_GATE)


def _import_modelopt(engine: str) -> tuple[Any, Any]:
    try:
        import onnx
        from modelopt.onnx.quantization import quantize
    except ImportError as error:
        message = f"fp8 needs {error.name}; install it: pip install 'liveanchor[fp8]' (nvidia-modelopt)"
        raise EngineExportError(engine, message) from error
    return quantize, onnx
