"""Ditto's networks as TensorRT engines: what goes in and out of each, and the module that each runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import nn

from engines.ditto import FAMILY
from engines.ditto.checkpoints import ditto_folder, load_network
from engines.ditto.dense_motion_core import DenseMotionCore
from engines.ditto.engine_modules import LmdmStep, PackedMotionExtractor
from engines.ditto.fused_post_warp_decoder import FusedPostWarpDecoder
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.warp_network import WarpNetwork
from engines.networks.lmdm import Lmdm
from engines.tensorrt.recipes import Load, NetworkRecipe
from engines.tensorrt.spec import BATCH, EngineSpec, Gate, Port

POST_WARP_DECODER: Final = EngineSpec(
    name=f"{FAMILY}/post_warp_decoder",
    inputs=(Port("warped", (BATCH, 512, 64, 64)), Port("occlusion", (BATCH, 1, 64, 64), unit=True)),
    outputs=("picture",),
    gate=Gate(2e-2, min_psnr_db=50.0),
    about="FusedPostWarpDecoder: warped features -> 512 x 512 picture",
)
DENSE_MOTION_CORE: Final = EngineSpec(
    name=f"{FAMILY}/dense_motion_core",
    inputs=(
        Port("deformed", (BATCH, 88, 16, 64, 64), unit=True),
        Port("kp_source", (BATCH, 21, 3), "float32", scale=0.3),
        Port("kp_driving", (BATCH, 21, 3), "float32", scale=0.3),
    ),
    outputs=("deformation", "occlusion"),
    gate=Gate(1e-2),
    about="DenseMotionCore: heat maps, hourglass, mask, deformation, occlusion; the 5-D samples stay outside",
)
LMDM_STEP: Final = EngineSpec(
    name=f"{FAMILY}/lmdm_step",
    inputs=(
        Port("x", (BATCH, 80, 265), "float32"),
        Port("frame_bias", (2, BATCH, 1, 512)),
        Port("film", (8, 3, 2, 2, BATCH, 1, 512), scale=0.5),
        Port("keys", (8, 2, BATCH, 8, 82, 64)),
        Port("values", (8, 2, BATCH, 8, 82, 64)),
    ),
    outputs=("x0",),
    gate=Gate(1e-2),
    about="one guided denoising step, both branches in one batch",
    best_batch=1,
)
APPEARANCE_EXTRACTOR: Final = EngineSpec(
    name=f"{FAMILY}/appearance_extractor",
    inputs=(Port("image", (BATCH, 3, 256, 256), unit=True),),
    outputs=("volume",),
    gate=Gate(1e-2),
    about="portrait -> feature volume",
    best_batch=1,
)
MOTION_EXTRACTOR: Final = EngineSpec(
    name=f"{FAMILY}/motion_extractor",
    inputs=(Port("image", (BATCH, 3, 256, 256), unit=True),),
    outputs=("motion",),
    gate=Gate(1e-4, min_cosine=0.999999),
    about="portrait -> pose logits, expression and keypoints, packed; float32, as its logits need it",
    dtype=torch.float32,
    best_batch=1,
)


def _post_warp_decoder(load: Load) -> nn.Module:
    warp, decoder = load(f"{FAMILY}/warp_network"), load(f"{FAMILY}/decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)  # noqa: S101 - what these names build
    return FusedPostWarpDecoder(warp, decoder)


def _dense_motion_core(load: Load) -> nn.Module:
    warp = load(f"{FAMILY}/warp_network")
    assert isinstance(warp, WarpNetwork)  # noqa: S101 - what this name builds
    return DenseMotionCore(warp.dense_motion_network)


def _lmdm_step(load: Load) -> nn.Module:
    lmdm = load(f"{FAMILY}/lmdm")
    assert isinstance(lmdm, Lmdm)  # noqa: S101 - what this name builds
    return LmdmStep(lmdm)


def _appearance_extractor(load: Load) -> nn.Module:
    return load(f"{FAMILY}/appearance_extractor")


def _motion_extractor(load: Load) -> nn.Module:
    return PackedMotionExtractor(load(f"{FAMILY}/motion_extractor"))


def public_weights(folder: Path | None) -> Load:
    """Loads the public checkpoints.

    Args:
        folder: Checkpoint folder; None means where `weights pull ditto` puts it.
    """
    return lambda name: load_network(ditto_folder(folder), name.partition("/")[2])


NETWORK_RECIPES: Final = tuple(
    NetworkRecipe(spec, make, public_weights)
    for spec, make in (
        (POST_WARP_DECODER, _post_warp_decoder),
        (DENSE_MOTION_CORE, _dense_motion_core),
        (LMDM_STEP, _lmdm_step),
        (APPEARANCE_EXTRACTOR, _appearance_extractor),
        (MOTION_EXTRACTOR, _motion_extractor),
    )
)
