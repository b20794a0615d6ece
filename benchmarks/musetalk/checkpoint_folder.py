"""MuseTalk checkpoint folders with weights from the documented formula: the public layout, narrow networks or the public sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from benchmarks.ditto.formula import FILL, SALT
from engines.musetalk import FAMILY
from engines.musetalk.checkpoints import PARSER_FILE, UNETS
from engines.musetalk.config_files import PARSER, TAESD, UNET, VAE, WHISPER
from engines.musetalk.libraries import library
from engines.musetalk.painter import LATENT_SCALE, Painter
from engines.networks import build

NARROW_UNET: Final[Mapping[str, Any]] = {
    **UNET, "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], "block_out_channels": [32, 64], "layers_per_block": 1,
    "norm_num_groups": 8,
}  # fmt: skip
NARROW_VAE: Final[Mapping[str, Any]] = {
    **VAE, "block_out_channels": [8, 8, 8, 8], "layers_per_block": 1, "norm_num_groups": 4,
}  # fmt: skip
NARROW_TAESD: Final[Mapping[str, Any]] = {
    **TAESD, "encoder_block_out_channels": [8] * 4, "decoder_block_out_channels": [8] * 4,
    "num_encoder_blocks": [1] * 4, "num_decoder_blocks": [1] * 4,
}  # fmt: skip
NARROW_WHISPER: Final[Mapping[str, Any]] = {**WHISPER, "encoder_ffn_dim": 64, "max_source_positions": 150}
"""It hears 3 s at once."""
NARROW_PARSER: Final[Mapping[str, Any]] = {**PARSER, "width": 8}
_OLD_NAMES: Final = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}


def filled_library(name: str, config: Mapping[str, Any]) -> nn.Module:
    """A network of `diffusers` under the formula."""
    return _filled(getattr(library("diffusers"), name)(**config))


def filled_whisper(config: Mapping[str, Any]) -> nn.Module:
    """The speech encoder under the formula."""
    made = library("transformers").WhisperConfig(**config)
    return _filled(library("transformers.models.whisper.modeling_whisper").WhisperEncoder(made))


def old_attention_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The autoencoder's tensors as the file of 2022 names them."""
    renamed = {}
    for key, value in state.items():
        old = key
        for new_name, old_name in _OLD_NAMES.items():
            if ".attentions." in key:
                old = old.replace(f".{new_name}.", f".{old_name}.")
        renamed[old] = value
    return renamed


def original_taesd(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A decoder's tensors `decoder.layers.i.*` of the library as the original file names them."""
    split = [
        (key.removeprefix("decoder.layers.").partition("."), value) for key, value in state.items() if "decoder" in key
    ]
    return {f"{int(index) + 1}.{rest}": value for (index, _, rest), value in split}


def make_pale(painter: Painter, latents: Tensor, tokens: Tensor, spread: float) -> None:
    """Scale the decoder's last layer so that its pictures are what screens show: under the formula nearly all is cut at 0 or 1.

    Args:
        painter: Its decoder is changed.
        latents: (n, 8, 32, 32), on its device.
        tokens: (n, 50, 384).
        spread: Standard deviation of the colours, 0..1, around a middle grey.
    """
    decoder: Any = painter.decoder
    last = decoder.decoder.conv_out if painter.is_vae else decoder.layers[-1]
    with torch.inference_mode():
        painted: Any = painter.unet(latents, painter.timestep, tokens, return_dict=False)[0]
        picture = decoder.decode(painted / LATENT_SCALE, return_dict=False)[0] if painter.is_vae else decoder(painted)
    # TAESD's last layer means 0..1, the autoencoder's -1..1
    own = picture if painter.is_vae else picture / 2 + 0.5
    gain = (2 * spread if painter.is_vae else spread) / float(own.std())
    last.weight.data *= gain
    last.bias.data = (last.bias.data - float(own.mean())) * gain + (0.0 if painter.is_vae else 0.5)


def write_folder(
    folder: Path,
    *,
    narrow: bool = True,
    version: int = 0,
    parser: bool = True,
    taesd: bool = True,
    spread: float | None = None,
) -> Path:
    """The public layout.

    Args:
        folder: Where to write.
        narrow: Small networks with their configurations, 4 MB; else the public sizes, 4 GB.
        version: 0 for the painter of version 1.5, 1 for that of 1.0.
        parser: Whether the face parser is there.
        taesd: Whether the small decoder is there.
        spread: Makes its pictures pale (`make_pale`); None: they are what the formula gives.
    """
    unet, vae, tiny, whisper, face = (
        (NARROW_UNET, NARROW_VAE, NARROW_TAESD, NARROW_WHISPER, NARROW_PARSER)
        if narrow
        else (UNET, VAE, TAESD, WHISPER, PARSER)
    )
    weights, config = UNETS[version]
    painter, small = filled_library("UNet2DConditionModel", unet), filled_library("AutoencoderTiny", tiny)
    if spread is not None:
        draw = torch.Generator().manual_seed(0)
        latents, tokens = torch.randn(1, 8, 32, 32, generator=draw), torch.randn(1, 50, 384, generator=draw)
        make_pale(Painter(painter, cast("Any", small).decoder), latents, tokens, spread)
    _write(folder / weights, painter.state_dict())
    _write_config(folder / config, {"_class_name": "UNet2DConditionModel", **unet})
    _write(
        folder / "sd-vae/diffusion_pytorch_model.bin",
        old_attention_names(filled_library("AutoencoderKL", vae).state_dict()),
    )
    _write_config(folder / "sd-vae/config.json", vae)
    encoder = {f"model.encoder.{key}": value for key, value in filled_whisper(whisper).state_dict().items()}
    _write(folder / "whisper/pytorch_model.bin", encoder | {"model.decoder.layer_norm.weight": torch.ones(384)})
    _write_config(folder / "whisper/config.json", whisper)
    if taesd:
        _write(folder / "taesd/taesd_decoder.pth", original_taesd(small.state_dict()))
        _write_config(folder / "taesd/config.json", tiny)
    if parser:
        _write(folder / PARSER_FILE, _filled(build(f"{FAMILY}/face_parser", **face)).state_dict())
        _write_config((folder / PARSER_FILE).with_name("config.json"), face)
    return folder


def _filled(module: nn.Module) -> nn.Module:
    """The formula in every tensor, several at a time: numpy lets threads run while it computes."""
    state = module.state_dict()
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda key: FILL.fill_array(key, tuple(state[key].shape), SALT), state))
    for key, array in zip(state, made, strict=True):
        if array is not None:
            state[key].copy_(torch.from_numpy(array))
    return module.eval().requires_grad_(False)


def _write(path: Path, state: Mapping[str, Tensor]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(dict(state), path)


def _write_config(path: Path, config: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(dict(config)), encoding="utf-8")
