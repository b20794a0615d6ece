"""fp8 through a quantised graph: NVIDIA's modelopt puts quantise / dequantise pairs into an ONNX file, TensorRT follows its types.

Not part of `auto`: it needs calibration inputs, and a gate of its own decides whether the engine serves. modelopt pins versions of
onnx and of onnxruntime that exclude the extra `onnx`: install it in a build environment of its own.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engines.tensorrt.build import Progress, build_plan, profile_of
from engines.tensorrt.cache import EngineCache, make_key
from engines.tensorrt.catalogue import EngineSpec, Gate, spec_of
from engines.tensorrt.errors import EngineExportError
from engines.tensorrt.export import Graph, export
from engines.tensorrt.library import Library, find_library
from engines.tensorrt.load import EngineSettings, Plan
from engines.tensorrt.runtime import TensorRtRuntime
from engines.tensorrt.target import Target, choose_target
from engines.tensorrt.verify import verify

Calibration = Sequence[tuple[Tensor, ...]]
FP8_GATE = Gate(5e-2, min_cosine=0.999)


def quantise_fp8(spec: EngineSpec, graph: Graph, calibration: Calibration) -> Graph:
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


def find_fp8_plan(
    spec: EngineSpec,
    module: nn.Module,
    calibration: Calibration,
    library: Library,
    target: Target,
    settings: EngineSettings,
    progress: Progress | None = None,
) -> Plan:
    """The fp8 plan of a network, from the cache or built now; quantising runs the network on the CPU and takes its time.

    Raises:
        EngineExportError, EngineBuildError, EngineCacheError: As their names say.
    """
    graph = quantise_fp8(spec, export(spec, module), calibration)
    named, profile = fp8_spec(spec), profile_of(spec)
    build = settings.build.key(profile, tf32=False)
    key = make_key(named.name, hashlib.sha256(graph.onnx).hexdigest(), library, target, build)
    data, built = EngineCache(settings.folder).read_or_build(
        key, lambda: build_plan(named.name, graph.onnx, profile, settings.build, library, target, progress)
    )
    return Plan(named, data, key.digest, built)


def load_fp8(
    name: str, module: nn.Module, calibration: Calibration, settings: EngineSettings | None = None
) -> TensorRtRuntime:
    """Like `engines.tensorrt.load.load_or_build`, with fp8 products; verified on the calibration inputs.

    Raises:
        TensorRtMissingError, EngineExportError, EngineBuildError, EngineRunError, EngineCacheError, EngineOffError: As there.
    """
    settings = settings or EngineSettings()
    library = find_library(settings.flavour)
    target = choose_target(library, device=torch.device(settings.device).index or 0)
    plan = find_fp8_plan(spec_of(name), module, calibration, library, target, settings)
    runtime = TensorRtRuntime(plan.spec, plan.data, library, settings.device)
    for inputs in calibration:
        verify(plan.spec, runtime.run_all, module, inputs, settings.device)
    return runtime


def _import_modelopt(engine: str) -> tuple[Any, Any]:
    try:
        import onnx
        from modelopt.onnx.quantization import quantize
    except ImportError as error:
        message = f"fp8 needs {error.name}; install it: pip install 'liveanchor[fp8]' (nvidia-modelopt)"
        raise EngineExportError(engine, message) from error
    return quantize, onnx
