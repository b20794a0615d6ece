"""Weights files: safetensors only, checked before anything is used.

A file of ours carries in its header: `family`, `network` (the name for `engines.networks.build`), `config` (JSON, its options),
`control_points` (version of the table that the motion refers to), `version` (of the weights) and `sha256` (over names, dtypes,
shapes and bytes of all tensors).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from engines.motion_version import CONTROL_POINTS_VERSION
from engines.networks import build
from engines.weights.errors import WeightsError

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_HALF_FROM = 16_384
_HEADER = ("family", "network", "config", "control_points", "version", "sha256")


class WeightsFileError(WeightsError):
    """A weights file cannot be used.

    Args:
        path: The file.
        key: Tensor or header entry at fault; empty when it is the file as a whole.
        reason: What is wrong, in one sentence.
    """

    code = "bad_weights"

    def __init__(self, path: str, key: str, reason: str) -> None:
        super().__init__(path, f"{key}: {reason}" if key else reason)
        self.args = (path, key, reason)
        self.path = path
        self.key = key
        self.reason = reason


@dataclass(frozen=True)
class Weights:
    """A checked weights file in memory.

    Attributes:
        path: Where it came from.
        family: E.g. `mini`.
        network: Name for `engines.networks.build`.
        config: Options for `build`.
        version: Version of the weights, copied into carries.
        tensors: Name -> CPU tensor in the file's dtype.
    """

    path: Path
    family: str
    network: str
    config: dict[str, Any]
    version: str
    tensors: dict[str, Tensor]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """Tensors whose name starts with `prefix`, the prefix removed."""
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}

    def without(self, prefix: str) -> dict[str, Tensor]:
        """Tensors whose name does not start with `prefix`."""
        return {key: value for key, value in self.tensors.items() if not key.startswith(prefix)}


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Digest over sorted names, dtypes, shapes and little-endian bytes."""
    digest = hashlib.sha256()
    for key in sorted(tensors):
        value = tensors[key].detach().cpu().contiguous()
        digest.update(f"{key}|{value.dtype}|{tuple(value.shape)}|".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _packed(value: Tensor) -> Tensor:
    large = value.dim() >= 2 and value.numel() >= _HALF_FROM
    return value.half() if large and value.dtype == torch.float32 else value


def write_weights(
    path: Path,
    tensors: Mapping[str, Tensor],
    *,
    family: str,
    network: str,
    config: Mapping[str, object],
    version: str,
    half: bool = True,
) -> str:
    """Write a weights file; float matrices of at least 16,384 values as float16 where `half`, everything else as it is.

    Returns:
        The digest in the header.
    """
    kept = {key: value.detach().cpu() for key, value in tensors.items()}
    packed = {key: (_packed(value) if half else value).contiguous().clone() for key, value in kept.items()}
    digest = tensors_sha256(packed)
    header = {
        "family": family,
        "network": network,
        "config": json.dumps(dict(config), sort_keys=True),
        "control_points": str(CONTROL_POINTS_VERSION),
        "version": version,
        "sha256": digest,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(packed, str(path), metadata=header)
    return digest


def read_weights(path: Path, *, family: str, network: str) -> Weights:
    """Read and check a weights file.

    Args:
        path: A safetensors file written by `write_weights`.
        family: Family that the caller needs.
        network: Network that the caller needs.

    Raises:
        WeightsFileError: Missing, unreadable, damaged, of another family or network, or made for another control-point table.
    """
    name = str(path)
    if not path.is_file():
        raise WeightsFileError(name, "", "no such file")
    try:
        with safe_open(name, framework="pt") as file:
            header = dict(file.metadata() or {})
            tensors = {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsFileError(name, "", f"not a readable safetensors file ({error})") from error
    for key in _HEADER:
        if key not in header:
            raise WeightsFileError(name, key, "missing from the file's header")
    expected = {"family": family, "network": network, "control_points": str(CONTROL_POINTS_VERSION)}
    for key, value in expected.items():
        if header[key] != value:
            raise WeightsFileError(name, key, f"is {header[key]!r}, needed {value!r}")
    if tensors_sha256(tensors) != header["sha256"]:
        raise WeightsFileError(name, "sha256", "the tensors do not match the header's digest; the file is damaged")
    for key, tensor in tensors.items():
        if tensor.dtype in _FLOATS and not bool(torch.isfinite(tensor).all()):
            raise WeightsFileError(name, key, "contains NaN or infinity")
    try:
        config = json.loads(header["config"])
    except json.JSONDecodeError as error:
        raise WeightsFileError(name, "config", f"is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise WeightsFileError(name, "config", "is not a JSON object")
    return Weights(path, family, network, config, header["version"], tensors)


def load_strictly(module: nn.Module, tensors: Mapping[str, Tensor], path: Path, *, assign: bool = False) -> None:
    """Copy tensors into a module: same names, same shapes, floats converted to the module's precision.

    Args:
        module: The network; it may lie on `meta` where `assign` says so.
        tensors: Name -> value.
        path: Where they come from, for errors.
        assign: Take the tensors themselves instead of copies, so that a mapped file is not read twice.

    Raises:
        WeightsFileError: Names the first missing, unexpected or misshapen tensor.
    """
    wanted = module.state_dict()
    for key in sorted(wanted.keys() - tensors.keys()):
        raise WeightsFileError(str(path), key, "is missing")
    for key in sorted(tensors.keys() - wanted.keys()):
        raise WeightsFileError(str(path), key, "is not part of this network")
    for key, target in wanted.items():
        value = tensors[key]
        if value.shape != target.shape:
            raise WeightsFileError(str(path), key, f"has shape {tuple(value.shape)}, needed {tuple(target.shape)}")
        if value.dtype != target.dtype and not (value.dtype in _FLOATS and target.dtype in _FLOATS):
            raise WeightsFileError(str(path), key, f"has dtype {value.dtype}, needed {target.dtype}")
    module.load_state_dict({key: tensors[key].to(target.dtype) for key, target in wanted.items()}, assign=assign)


def build_network(weights: Weights, tensors: Mapping[str, Tensor] | None = None) -> nn.Module:
    """Build the file's network with the file's options and load it strictly."""
    module = build(weights.network, **weights.config)
    load_strictly(module, weights.tensors if tensors is None else tensors, weights.path)
    return module
