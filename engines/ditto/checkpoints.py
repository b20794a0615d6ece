"""The public Ditto checkpoints, file by file: read safely, loaded strictly (layout: docs/ditto.md).

The folder is laid out as the public repository is; `liveanchor weights pull ditto` and `weights import DIR` make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from engines.ditto import FAMILY
from engines.networks import build
from engines.weights.file import WeightsFileError, load_strictly
from engines.weights.home import weights_dir
from engines.weights.torch_file import read_torch_file

MODELS: Final = "ditto_pytorch/models"
AUXILIARY: Final = "ditto_pytorch/aux_models"
NETWORK_FILES: Final[dict[str, str]] = {
    "appearance_extractor": f"{MODELS}/appearance_extractor.pth",
    "motion_extractor": f"{MODELS}/motion_extractor.pth",
    "warp_network": f"{MODELS}/warp_network.pth",
    "decoder": f"{MODELS}/decoder.pth",
    "stitch_network": f"{MODELS}/stitch_network.pth",
    "lmdm": f"{MODELS}/lmdm_v0.4_hubert.pth",
}
"""Network, as in `engines.networks.build("ditto/...")` -> its file inside the folder."""
HUBERT_FILE: Final = f"{AUXILIARY}/hubert_streaming_fix_kv.onnx"
LANDMARK_203_FILE: Final = f"{AUXILIARY}/landmark203.onnx"
LANDMARK_106_FILE: Final = f"{AUXILIARY}/2d106det.onnx"
MISSING_FILE: Final = "no such file; liveanchor weights pull ditto, or import a complete folder"
"""What an operator does about a checkpoint that is not there."""

_ENTRIES: Final = {"stitch_network": "retarget_shoulder", "lmdm": "model_state_dict"}
"""Networks whose file is a dictionary of several things -> the entry that holds the weights."""
_PARALLEL_PREFIX: Final = "module."
_CONSTANT: Final = "rotary.freqs"


def ditto_folder(folder: Path | None = None) -> Path:
    """The folder with the checkpoints: the given one, else where `weights pull ditto` puts them."""
    return folder or weights_dir(FAMILY)


def load_network(folder: Path, name: str, **config: Any) -> nn.Module:
    """A network with its public weights.

    Args:
        folder: Laid out as the public repository.
        name: One of `NETWORK_FILES`.
        config: Options of the network.

    Returns:
        float32 on the CPU, eval mode, without gradients.

    Raises:
        WeightsFileError: Missing, damaged, not a weights file, or of another network; it names the file and the tensor.
    """
    path = folder / NETWORK_FILES[name]
    module = build(f"ditto/{name}", **config)
    tensors = read_tensors(path, name)
    constants = {key: value for key, value in module.state_dict().items() if key.endswith(_CONSTANT)}
    load_strictly(module, {**tensors, **constants}, path)
    return module.requires_grad_(False)


def read_tensors(path: Path, name: str) -> dict[str, Tensor]:
    """The tensors of one checkpoint under the network's own names; derived constants are left out.

    Raises:
        WeightsFileError: Missing, damaged, or no checkpoint of that network.
    """
    if not path.is_file():
        raise WeightsFileError(str(path), "", MISSING_FILE)
    content: Any = read_torch_file(path)
    if name in _ENTRIES:
        entry = _ENTRIES[name]
        if not isinstance(content, Mapping) or not isinstance(content.get(entry), Mapping):
            raise WeightsFileError(str(path), entry, "is missing from the file")
        content = content[entry]
    if not isinstance(content, Mapping):
        raise WeightsFileError(str(path), "", f"holds a {type(content).__name__}, not a state dict")
    tensors: dict[str, Tensor] = {}
    for key, value in content.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            raise WeightsFileError(str(path), str(key)[:80], f"is a {type(value).__name__}, not a tensor")
        own = key.replace(_PARALLEL_PREFIX, "") if name == "stitch_network" else key
        if own.endswith(_CONSTANT):
            continue
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise WeightsFileError(str(path), key, "contains NaN or infinity")
        tensors[own] = value
    return tensors


def check_networks(folder: Path) -> list[str]:
    """Load every network strictly and drop it again.

    Returns:
        The files, in the order they were checked.

    Raises:
        WeightsFileError: For the first file at fault.
    """
    for name in NETWORK_FILES:
        load_network(folder, name)
    return list(NETWORK_FILES.values())
