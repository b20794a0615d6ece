"""Weights of `HubertEncoder` out of an ONNX file: by name, else by the place in the graph next to a named bias.

Exporters keep the names of biases and norms, but fold the transposed weight of a linear layer, or the normalised weight of the
position code, into an initialiser without a telling name; it is found as the other factor of the product that the bias is added to.
A fixed context is found as the constant that a layer's keys or values are concatenated with.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engines.ditto.onnx_model import OnnxRuntimeMissingError
from engines.networks.ditto.hubert_encoder import HubertEncoder
from engines.weights.file import WeightsFileError

_PASSED: Final = frozenset({"Reshape", "Transpose", "Mul", "Div", "Unsqueeze", "Squeeze", "Identity", "Cast"})
"""What may lie between a projection and the concatenation with its context."""
_VIEWS: Final = frozenset({"Expand", "Unsqueeze", "Identity", "Cast"})
_CONTEXTS: Final = {"context_keys": "k_proj", "context_values": "v_proj"}


class OnnxGraph:
    """Constants of a file and who uses them.

    Raises:
        OnnxRuntimeMissingError: The package `onnx` is not installed.
        WeightsFileError: Not an ONNX file.
    """

    def __init__(self, path: Path) -> None:
        try:
            import onnx
            from google.protobuf.message import DecodeError
        except ImportError as error:
            raise OnnxRuntimeMissingError from error
        try:
            graph = onnx.load(str(path)).graph
        except (OSError, DecodeError, ValueError) as error:
            raise WeightsFileError(str(path), "", f"is no ONNX file ({str(error)[:100]})") from error
        self.path = path
        self.constants: dict[str, Any] = {tensor.name: tensor for tensor in graph.initializer}
        self.nodes = list(graph.node)
        for node in self.nodes:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
                self.constants[node.output[0]] = node.attribute[0].t
            elif node.op_type == "Identity" and node.input[0] in self.constants:  # exporters store equal tensors once
                self.constants[node.output[0]] = self.constants[node.input[0]]
        self._users: dict[str, list[Any]] = {}
        self._makers: dict[str, Any] = {}
        for node in self.nodes:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
            for name in node.output:
                self._makers[name] = node

    def array(self, name: str) -> NDArray[Any]:
        """A constant's values."""
        from onnx import numpy_helper

        return np.asarray(numpy_helper.to_array(self.constants[name]))

    def named(self, key: str) -> str | None:
        """The constant of that name, whatever module it was exported inside of."""
        if key in self.constants:
            return key
        found = [name for name in self.constants if name.endswith(f".{key}")]
        return found[0] if len(found) == 1 else None

    def users(self, name: str) -> list[Any]:
        """Nodes that take this value."""
        return self._users.get(name, [])

    def maker(self, name: str) -> Any:
        """The node that makes this value; None for inputs and constants."""
        return self._makers.get(name)

    def beside_bias(self, bias: str) -> NDArray[Any] | None:
        """The weight whose product this bias is added to, as torch has it."""
        for node in self.users(bias):
            if node.op_type in ("Conv", "Gemm") and len(node.input) == 3 and node.input[1] in self.constants:
                weight = self.array(node.input[1])
                turned = node.op_type == "Gemm" and not any(a.name == "transB" and a.i for a in node.attribute)
                return weight.T if turned else weight
            if node.op_type == "Add":
                for name in node.input:
                    product = self.maker(name)
                    if product is not None and product.op_type == "MatMul" and product.input[1] in self.constants:
                        return self.array(product.input[1]).T
        return None

    def joined_with(self, bias: str) -> NDArray[Any] | None:
        """The constant that the output of a projection is concatenated with, if there is one."""
        seen = [output for node in self.users(bias) for output in node.output]
        while seen:
            for node in self.users(seen.pop()):
                if node.op_type == "Concat":
                    fixed = [source for name in node.input if (source := self._source(name)) in self.constants]
                    if fixed and len(node.input) == 2:
                        return self.array(fixed[0])
                elif node.op_type in _PASSED:
                    seen.extend(node.output)
        return None

    def _source(self, name: str) -> str:
        """What a value is a mere view of."""
        while (node := self.maker(name)) is not None and node.op_type in _VIEWS:
            name = node.input[0]
        return name


def read_hubert(path: Path, **config: Any) -> HubertEncoder:
    """A `HubertEncoder` with the file's weights, float32 on the CPU, eval mode; a fixed context is taken over.

    Args:
        path: The ONNX file.
        config: Options of `HubertEncoder` where it is not HuBERT-large; `context` is found in the file.

    Raises:
        OnnxRuntimeMissingError: The package `onnx` is not installed.
        WeightsFileError: Not such a file; it names the first tensor that is missing or of the wrong shape.
    """
    graph = OnnxGraph(path)
    heads = int(config.get("heads", 16))
    contexts = dict(_contexts(graph, heads, int(config.get("width", 1024)) // heads))
    lengths = {context.shape[1] for context in contexts.values()}
    if len(lengths) > 1:
        raise WeightsFileError(str(path), "context", f"differs in length between layers: {sorted(lengths)}")
    with torch.device("meta"):
        module = HubertEncoder(context=lengths.pop() if lengths else 0, **config)
    state: dict[str, Tensor] = {}
    for key, wanted in module.state_dict().items():
        if key.rpartition(".")[2] in _CONTEXTS:
            value = contexts.get(key, torch.zeros(0) if wanted.numel() else torch.zeros(wanted.shape))
        else:
            value = _parameter(graph, key)
        if value.shape != wanted.shape:
            got = "is missing" if not value.numel() else f"has shape {tuple(value.shape)}"
            raise WeightsFileError(str(path), key, f"{got}, needed {tuple(wanted.shape)}")
        if not bool(torch.isfinite(value).all()):
            raise WeightsFileError(str(path), key, "contains NaN or infinity")
        state[key] = value
    module.load_state_dict(state, strict=True, assign=True)
    return module.eval().requires_grad_(False)


def _parameter(graph: OnnxGraph, key: str) -> Tensor:
    """A parameter; empty where the file has none."""
    owner, _, kind = key.rpartition(".")
    name = graph.named(key)
    if name is not None:
        return _tensor(graph.array(name))
    if kind == "weight":
        normalised = _weight_norm(graph, owner)
        if normalised is not None:
            return normalised
        bias = graph.named(f"{owner}.bias")
        found = graph.beside_bias(bias) if bias is not None else None
        if found is not None:
            return _tensor(found)
    return torch.zeros(0)


def _weight_norm(graph: OnnxGraph, owner: str) -> Tensor | None:
    """Weight normalisation over the last axis (the position code's): g * v / norm(v)."""
    for g, v in (("weight_g", "weight_v"), ("parametrizations.weight.original0", "parametrizations.weight.original1")):
        names = graph.named(f"{owner}.{g}"), graph.named(f"{owner}.{v}")
        if names[0] is not None and names[1] is not None:
            size, direction = _tensor(graph.array(names[0])), _tensor(graph.array(names[1]))
            scaled: Tensor = size * direction / torch.linalg.vector_norm(direction, dim=(0, 1), keepdim=True)
            return scaled
    return None


def _contexts(graph: OnnxGraph, heads: int, depth: int) -> Iterator[tuple[str, Tensor]]:
    """Name -> fixed keys or values (heads, n, depth) of every layer that has them."""
    layer = 0
    while graph.named(f"encoder.layers.{layer}.attention.k_proj.bias") is not None:
        for name, projection in _CONTEXTS.items():
            bias = graph.named(f"encoder.layers.{layer}.attention.{projection}.bias")
            found = graph.joined_with(bias) if bias is not None else None
            if found is None:
                continue
            array = found[0] if found.ndim == 4 else found
            if array.ndim != 3:
                continue
            for axes in ((0, 1, 2), (0, 2, 1), (1, 0, 2)):
                turned = array.transpose(axes)
                if turned.shape[0] == heads and turned.shape[2] == depth:
                    yield f"encoder.layers.{layer}.attention.{name}", _tensor(turned)
                    break
        layer += 1


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(array, np.float32, order="C"))
