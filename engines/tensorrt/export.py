"""Torch module -> ONNX: opset 18, dynamic batch, types as the module has them, the same bytes for the same network.

The exporter traces with stand-in tensors: nothing runs, half precision costs nothing on a CPU. What it notes next to the graph
(source lines, paths of this machine) is removed, so that the bytes can be a cache key.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from engines.tensorrt.errors import EngineExportError
from engines.tensorrt.precision import in_type
from engines.tensorrt.spec import EngineSpec
from kernels.errors import first_line

OPSET: Final = 18
"""The newest that TensorRT reads without known errors (its reading of a version 20 grid sample is wrong)."""
TRACED_BATCH: Final = 2
_FORBIDDEN: Final = "GridSample"


@dataclass(frozen=True)
class Graph:
    """An exported network.

    Attributes:
        engine: Name of the engine it is for.
        onnx: The file's bytes, weights inside.
    """

    engine: str
    onnx: bytes


def export(spec: EngineSpec, module: nn.Module) -> Graph:
    """Export a network in its engine's type.

    Args:
        spec: What goes in and out.
        module: The float32 network on the CPU; it is copied.

    Raises:
        EngineExportError: The exporter is not installed or fails, or the graph is not what an engine may have.
    """
    onnx = _import_onnx(spec.name)
    typed = in_type(module.to("cpu"), spec.dtype)
    inputs = spec.random_inputs(TRACED_BATCH)
    try:
        model = _trace(spec, typed, inputs)
    except (RuntimeError, ValueError, TypeError, NotImplementedError, ImportError) as error:
        raise EngineExportError(spec.name, f"the network cannot be exported: {first_line(error, 300)}") from error
    _strip(model)
    check_graph(spec, model)
    data = io.BytesIO()
    onnx.save_model(model, data)
    return Graph(spec.name, data.getvalue())


def check_graph(spec: EngineSpec, model: Any) -> None:
    """Check an ONNX model against its spec.

    Raises:
        EngineExportError: A newer opset, other names, a fixed batch, a foreign operator domain, or a grid sample.
    """
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    if set(opsets) - {"", "ai.onnx"} or max(opsets.values()) > OPSET:
        raise EngineExportError(spec.name, f"the graph needs operators of {opsets}, at most opset {OPSET} is read")
    operators = {node.op_type for node in model.graph.node}
    if _FORBIDDEN in operators:
        raise EngineExportError(spec.name, "a grid sample inside the graph; it belongs between engines, in float32")
    named = tuple(value.name for value in model.graph.input), tuple(value.name for value in model.graph.output)
    if named != (tuple(port.name for port in spec.inputs), spec.outputs):
        raise EngineExportError(spec.name, f"inputs and outputs are named {named}")
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        fixed = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims)
        expected = next(port.shape for port in spec.inputs if port.name == value.name)
        if fixed != expected:
            raise EngineExportError(spec.name, f"input {value.name} has shape {fixed}, needed {expected}")


def _trace(spec: EngineSpec, module: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    batch = torch.export.Dim("batch", min=1, max=spec.max_batch)
    shapes = tuple({spec.batch_axis_of[port.name]: batch} for port in spec.inputs)
    with _quietly(), torch.no_grad():
        traced = torch.export.export(
            module, inputs, dynamic_shapes=shapes
        )  # on its own: never retried with a fixed batch
        program = torch.onnx.export(
            traced,
            dynamo=True,
            opset_version=OPSET,
            input_names=[port.name for port in spec.inputs],
            output_names=list(spec.outputs),
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("the exporter returned nothing")
    return program.model_proto


def _strip(model: Any) -> None:
    """Remove everything that differs between machines and says nothing about the function."""
    for field in ("producer_name", "producer_version", "doc_string", "domain"):
        model.ClearField(field)
    model.ClearField("metadata_props")
    graph = model.graph
    graph.ClearField("doc_string")
    graph.ClearField("metadata_props")
    graph.ClearField("value_info")
    graph.name = "engine"
    for part in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """The exporter warns about packages that no network here needs."""
    exporter = logging.getLogger("torch.onnx")
    before = exporter.level
    exporter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        exporter.setLevel(before)


def _import_onnx(engine: str) -> Any:
    try:
        import onnx
        import onnxscript  # noqa: F401 - what torch's exporter is built on
    except ImportError as error:
        raise EngineExportError(
            engine, f"export needs {error.name}; install the extra: pip install 'liveanchor[onnx]'"
        ) from error
    return onnx
