"""The public `flownet.pkl` of RIFE 4.x: read safely, recognised by its shapes, converted to safetensors.

The public files are torch pickles whose keys carry the training wrapper's prefix `module.`; some hold networks that only training
used (`teacher`, `caltime`, `block_tea`, `contextnet`, `unet`). The author's own archive (a zip) is read as it comes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from engines.networks import build
from engines.networks.rife.ifnet import LAYOUTS, IFNet
from engines.weights.file import WeightsFileError, load_strictly
from engines.weights.torch_file import read_torch_file

FAMILY: Final = "rife"
MEMBER: Final = "flownet.pkl"
PREFIX: Final = "module."
_LARGEST_MEMBER: Final = 400_000_000
PUBLIC_VERSIONS: Final = ("4.25", "4.9", "4.6", "4.0")
"""Graphs of public checkpoints, the best first. 4.7 and 4.8 have the graph of 4.9, and 4.26 that of 4.25."""


@dataclass(frozen=True)
class Flownet:
    """A recognised checkpoint.

    Attributes:
        path: The file.
        version: Key of `LAYOUTS`; `rife/<version>` is its network.
        tensors: The network's tensors under its own names, float32.
        extras: Names in the file that the network does not use, tensors or not, sorted, without their prefix.
    """

    path: Path
    version: str
    tensors: dict[str, Tensor]
    extras: tuple[str, ...]


def read_flownet(path: Path) -> Flownet:
    """Read a checkpoint and find out which version it is.

    Args:
        path: `flownet.pkl`, an archive that holds one, or a safetensors file with the same names.

    Raises:
        WeightsFileError: Missing, damaged, asks for code, or no version that is known here; it names the file and the tensor.
    """
    entries = _own_names(path, _content(path))
    version, shapes = _recognise(path, {key: value for key, value in entries.items() if isinstance(value, Tensor)})
    own = {key: _checked(path, key, entries[key]) for key in shapes}
    return Flownet(path, version, own, tuple(sorted(entries.keys() - own.keys())))


def build_flownet(flownet: Flownet) -> IFNet:
    """The network with these weights: float32 on the CPU, eval mode, without gradients."""
    network = build(f"rife/{flownet.version}")
    if not isinstance(network, IFNet):
        raise WeightsFileError(str(flownet.path), "", f"rife/{flownet.version} is no interpolation network")
    load_strictly(network, flownet.tensors, flownet.path)
    return network.requires_grad_(False)


def _content(path: Path) -> object:
    if not path.is_file():
        raise WeightsFileError(str(path), "", "no such file")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise WeightsFileError(str(path), "", f"not a readable safetensors file ({error})") from error
    if path.suffix == ".zip":
        return read_torch_file(path, _member(path))
    return read_torch_file(path)


def _member(path: Path) -> bytes:
    """The one `flownet.pkl` inside an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [info for info in archive.infolist() if Path(info.filename).name == MEMBER]
            if len(found) != 1:
                raise WeightsFileError(str(path), MEMBER, f"is in the archive {len(found)} times, needed once")
            if found[0].file_size > _LARGEST_MEMBER:
                raise WeightsFileError(str(path), MEMBER, f"has {found[0].file_size} bytes, more than any such network")
            return archive.read(found[0])
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise WeightsFileError(str(path), "", f"is not a readable archive ({error})") from error


def _own_names(path: Path, content: object) -> dict[str, object]:
    """Entries without their prefix; where any name has it, names without it are not the network's."""
    if not isinstance(content, Mapping) or not content:
        raise WeightsFileError(str(path), "", f"holds a {type(content).__name__}, not a state dict with tensors")
    if not any(isinstance(value, Tensor) for value in content.values()):
        key, value = next(iter(content.items()))
        raise WeightsFileError(str(path), str(key)[:80], f"is a {type(value).__name__}, not a tensor")
    entries = {str(key): value for key, value in content.items()}
    if any(key.startswith(PREFIX) for key in entries):
        return {key.removeprefix(PREFIX): value for key, value in entries.items() if key.startswith(PREFIX)}
    return entries


def _checked(path: Path, key: str, value: object) -> Tensor:
    """A tensor of the network in float32.

    Raises:
        WeightsFileError: Integers, sparse, quantised or without content, or numbers that are not finite.
    """
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.device.type != "cpu":
        raise WeightsFileError(str(path), key, "is no plain dense tensor")
    if not value.is_floating_point():
        raise WeightsFileError(str(path), key, f"holds {value.dtype}, not floating-point numbers")
    if not bool(torch.isfinite(value).all()):
        raise WeightsFileError(str(path), key, "contains NaN or infinity")
    return value.detach().float()


def _recognise(path: Path, tensors: Mapping[str, Tensor]) -> tuple[str, dict[str, torch.Size]]:
    """Version whose every tensor is there in its shape, with those shapes.

    A network without an encoder is part of one with an encoder: the version with the most tensors wins.
    """
    fitting: dict[str, dict[str, torch.Size]] = {}
    nearest: tuple[int, str, str] | None = None
    for version in LAYOUTS:
        with torch.device("meta"):
            shapes = {key: value.shape for key, value in IFNet(LAYOUTS[version]).state_dict().items()}
        wrong = [key for key, shape in shapes.items() if key not in tensors or tensors[key].shape != shape]
        if not wrong:
            fitting[version] = shapes
        elif nearest is None or len(wrong) < nearest[0]:
            nearest = (len(wrong), version, wrong[0])
    if fitting:
        version = max(fitting, key=lambda name: len(fitting[name]))
        return version, fitting[version]
    count, version, key = nearest or (0, "", "")
    reason = (
        f"is no IFNet of {', '.join(LAYOUTS)}; nearest to {version}, where {count} tensors are missing or misshapen"
    )
    raise WeightsFileError(str(path), key, reason)
