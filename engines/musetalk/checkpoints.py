"""The public checkpoints of MuseTalk, file by file: read safely, loaded strictly (layout: docs/musetalk.md).

The folder is laid out as the reference's `models/`; `liveanchor weights pull musetalk` and `weights import DIR` make it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from engines.musetalk import FAMILY
from engines.musetalk.config_files import PARSER, TAESD, UNET, VAE, WHISPER, read_config
from engines.musetalk.libraries import library
from engines.networks import build
from engines.weights.file import WeightsFileError, load_strictly
from engines.weights.home import weights_dir
from engines.weights.torch_file import read_torch_file

Decoder = Literal["taesd", "vae"]
Rename = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
MISSING_FILE: Final = "no such file; liveanchor weights pull musetalk, or import a complete folder"
UNETS: Final = (
    ("musetalkV15/unet.pth", "musetalkV15/musetalk.json"),
    ("musetalk/pytorch_model.bin", "musetalk/musetalk.json"),
)
"""Versions 1.5 and 1.0; the first one that is there is used."""
VAE_FILES: Final = ("sd-vae/diffusion_pytorch_model.safetensors", "sd-vae/diffusion_pytorch_model.bin")
WHISPER_FILES: Final = ("whisper/model.safetensors", "whisper/pytorch_model.bin")
TAESD_FILES: Final = (
    "taesd/diffusion_pytorch_model.safetensors",
    "taesd/taesd_decoder.safetensors",
    "taesd/taesd_decoder.pth",
)
PARSER_FILE: Final = "face-parse-bisent/79999_iter.pth"
_OLD_ATTENTION: Final = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
_COUNTER: Final = "num_batches_tracked"


@dataclass(frozen=True)
class Found:
    """A network's files.

    Attributes:
        weights: The file with its tensors.
        config: The file with its options; it need not exist.
    """

    weights: Path
    config: Path


def musetalk_folder(folder: Path | None = None) -> Path:
    """The folder with the checkpoints: the given one, else where `weights pull musetalk` puts them."""
    return folder or weights_dir(FAMILY)


def unet_files(folder: Path) -> Found:
    """The painter's files, of version 1.5 where it is there, else of 1.0.

    Raises:
        WeightsFileError: Neither is there.
    """
    for weights, config in UNETS:
        if (folder / weights).is_file():
            return Found(folder / weights, folder / config)
    raise WeightsFileError(str(folder / UNETS[0][0]), "", MISSING_FILE)


def has_taesd(folder: Path) -> bool:
    """Whether the small decoder is there."""
    return any((folder / name).is_file() for name in TAESD_FILES)


def has_parser(folder: Path) -> bool:
    """Whether the face parser is there."""
    return (folder / PARSER_FILE).is_file()


def load_unet(folder: Path) -> nn.Module:
    """The painter, `UNet2DConditionModel` with eight input channels, float32 on the CPU, without gradients.

    Raises:
        WeightsFileError: Missing, damaged, or of another network; it names the file and the tensor.
        ExtraMissingError: The extra `musetalk` is not installed.
    """
    found = unet_files(folder)
    return _loaded("UNet2DConditionModel", read_config(found.config, UNET), found.weights, dict)


def load_vae(folder: Path) -> nn.Module:
    """The autoencoder, `AutoencoderKL`; errors as for `load_unet`. Old and new names of its attention are read."""
    path = _first(folder, VAE_FILES)
    return _loaded("AutoencoderKL", read_config(folder / "sd-vae/config.json", VAE), path, new_attention_names)


def load_taesd(folder: Path) -> nn.Module:
    """The small decoder, out of `AutoencoderTiny`, in either layout; errors as for `load_unet`."""
    path = _first(folder, TAESD_FILES)
    config = read_config(folder / "taesd/config.json", TAESD)
    with torch.device("meta"):
        module: nn.Module = library("diffusers").AutoencoderTiny(**config).decoder
    return _filled(module, taesd_decoder_names(read_tensors(path)), path)


def load_whisper(folder: Path) -> nn.Module:
    """The speech encoder, `WhisperEncoder`, out of a checkpoint of the whole model; errors as for `load_unet`."""
    path = _first(folder, WHISPER_FILES)
    config = library("transformers").WhisperConfig(**read_config(folder / "whisper/config.json", WHISPER))
    with torch.device("meta"):
        module: nn.Module = library("transformers.models.whisper.modeling_whisper").WhisperEncoder(config)
    return _filled(module, encoder_names(read_tensors(path)), path)


def load_parser(folder: Path) -> nn.Module:
    """The face parser; errors as for `load_unet`."""
    path = folder / PARSER_FILE
    module = build(f"{FAMILY}/face_parser", **read_config(path.with_name("config.json"), PARSER))
    tensors = read_tensors(path)
    counters = {key: value for key, value in module.state_dict().items() if key.endswith(_COUNTER)}
    load_strictly(module, counters | tensors, path)
    return module.requires_grad_(False)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a `.pth`, `.bin` or `.safetensors` file under the file's own names.

    Raises:
        WeightsFileError: Missing, damaged, holds something else than tensors, or a number that is not finite.
    """
    if not path.is_file():
        raise WeightsFileError(str(path), "", MISSING_FILE)
    content: Any
    if path.suffix == ".safetensors":
        try:
            content = load_file(path)
        except (SafetensorError, OSError) as error:
            raise WeightsFileError(str(path), "", f"is damaged ({str(error)[:100]})") from error
    else:
        content = read_torch_file(path)
    if not isinstance(content, Mapping):
        raise WeightsFileError(str(path), "", f"holds a {type(content).__name__}, not a state dict")
    tensors: dict[str, Tensor] = {}
    for key, value in content.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            raise WeightsFileError(str(path), str(key)[:80], f"is a {type(value).__name__}, not a tensor")
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise WeightsFileError(str(path), key, "contains NaN or infinity")
        tensors[key] = value
    return tensors


def new_attention_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names of 2022 (`query`, `key`, `value`, `proj_attn`) to those of today; 1 x 1 convolutions become matrices."""
    renamed = {}
    for key, value in tensors.items():
        head, dot, last = key.rpartition(".")
        stem, _, part = head.rpartition(".")
        if ".attentions." in key and part in _OLD_ATTENTION:
            key = f"{stem}.{_OLD_ATTENTION[part]}{dot}{last}"
        if ".attentions." in key and value.ndim == 4 and value.shape[2:] == (1, 1):
            value = value[:, :, 0, 0]
        renamed[key] = value
    return renamed


def taesd_decoder_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The decoder's tensors as `layers.i.*`.

    The original file counts a clamp without parameters as layer 0, so its `i.*` is `layers.(i - 1).*`; a file of the library holds
    both halves under `decoder.layers.` and `encoder.layers.`.
    """
    if all(key.split(".")[0].isdigit() for key in tensors):
        split = ((key.partition("."), value) for key, value in tensors.items())
        return {f"layers.{int(index) - 1}.{rest}": value for (index, _, rest), value in split}
    return {
        key.removeprefix("decoder."): value for key, value in tensors.items() if not key.startswith("encoder.layers.")
    }


def encoder_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The encoder's part of a whole Whisper, under its own names; a file of the encoder alone is taken as it is."""
    for prefix in ("model.encoder.", "encoder."):
        part = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        if part:
            return part
    return dict(tensors)


def check_networks(folder: Path) -> tuple[str, ...]:
    """Load every network strictly and drop it again.

    Returns:
        What is there of what may be missing, a line each, for people.

    Raises:
        WeightsFileError: For the first file at fault.
        ExtraMissingError: The extra `musetalk` is not installed.
    """
    load_unet(folder)
    load_vae(folder)
    load_whisper(folder)
    said = [f"painter: {unet_files(folder).weights.relative_to(folder)}"]
    if has_taesd(folder):
        load_taesd(folder)
        said.append("decoder: TAESD")
    else:
        said.append("decoder: the autoencoder's own (slow); taesd/ is not there")
    if has_parser(folder):
        load_parser(folder)
        said.append("face parser: BiSeNet")
    else:
        said.append("face parser: our own mesh; face-parse-bisent/ is not there")
    return tuple(said)


def _loaded(name: str, config: Mapping[str, Any], path: Path, rename: Rename) -> nn.Module:
    with torch.device("meta"):
        module: nn.Module = getattr(library("diffusers"), name)(**config)
    return _filled(module, rename(read_tensors(path)), path)


def _filled(module: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> nn.Module:
    load_strictly(module, tensors, path, assign=True)
    return module.eval().requires_grad_(False)


def _first(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of these files that is there; the last one's name where none is."""
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[-1])
