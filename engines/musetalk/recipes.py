"""MuseTalk's networks as TensorRT engines: what goes in and out of each, and the module that each runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from torch import nn

from engines.musetalk import FAMILY
from engines.musetalk.checkpoints import load_taesd, load_unet, musetalk_folder
from engines.musetalk.config_files import TAESD, UNET
from engines.musetalk.engine_modules import DecoderEngine, UnetEngine
from engines.musetalk.libraries import library
from engines.musetalk.shapes import LATENT_CHANNELS, LATENT_SIDE, TOKEN_DIM, TOKENS
from engines.tensorrt.recipes import Load, NetworkRecipe
from engines.tensorrt.spec import BATCH, EngineSpec, Gate, Port

RANGES: Final = ((1, 1, 4), (5, 8, 16), (17, 32, 64))
"""Few faces of one session, several sessions, files and many sessions."""
_UNET: Final = f"{FAMILY}/unet"
_TAESD: Final = f"{FAMILY}/taesd"

UNET_SPEC: Final = EngineSpec(
    name=_UNET,
    inputs=(
        Port("latents", (BATCH, LATENT_CHANNELS, LATENT_SIDE, LATENT_SIDE)),
        Port("tokens", (BATCH, TOKENS, TOKEN_DIM)),
    ),
    outputs=("painted",),
    gate=Gate(2e-2),
    about="UNet2DConditionModel at step 0: latents and tokens -> painted latents; norms in float32",
    max_batch=RANGES[-1][2],
    ranges=RANGES,
)
TAESD_SPEC: Final = EngineSpec(
    name=_TAESD,
    inputs=(Port("painted", (BATCH, 4, LATENT_SIDE, LATENT_SIDE)),),
    outputs=("picture",),
    gate=Gate(2e-2, min_psnr_db=50.0),
    about="TAESD's decoder: painted latents -> 256 x 256 faces",
    max_batch=RANGES[-1][2],
    ranges=RANGES,
)


def random_networks(name: str) -> nn.Module:
    """A network of the public size with random weights.

    Raises:
        ExtraMissingError: The extra `musetalk` is not installed.
    """
    if name == _UNET:
        unet: nn.Module = library("diffusers").UNet2DConditionModel(**UNET)
        return unet
    taesd: nn.Module = library("diffusers").AutoencoderTiny(**TAESD).decoder
    return taesd


def public_weights(folder: Path | None) -> Load:
    """Loads the public checkpoints.

    Args:
        folder: Checkpoint folder; None means where `weights pull musetalk` puts it.
    """
    root = musetalk_folder(folder)
    return lambda name: load_unet(root) if name == _UNET else load_taesd(root)


def _unet(load: Load) -> nn.Module:
    return UnetEngine(load(_UNET))


def _taesd(load: Load) -> nn.Module:
    return DecoderEngine(load(_TAESD))


NETWORK_RECIPES: Final = tuple(
    NetworkRecipe(spec, make, public_weights, random_networks)
    for spec, make in ((UNET_SPEC, _unet), (TAESD_SPEC, _taesd))
)
