"""The painter written anew against the library's networks: equal in float32 on the CPU, near in float16 on a GPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.musetalk.checkpoint_folder import NARROW_UNET
from engines.musetalk.checkpoints import load_taesd, load_unet, load_vae
from engines.musetalk.fast.painter import FastPainter
from engines.musetalk.fast.taesd import FastTaesd
from engines.musetalk.fast.unet import FastUnet
from engines.musetalk.libraries import library
from engines.musetalk.painter import Painter
from engines.networks.rewriting import UnsupportedNetworkError
from tests.support.musetalk import narrow_folder


def given(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 8, 32, 32, generator=generator), torch.randn(count, 50, 384, generator=generator)


def relative(got: Tensor, want: Tensor) -> float:
    return float((got.cpu().double() - want.cpu().double()).norm() / want.cpu().double().norm())


def two_blocks_a_level() -> nn.Module:
    """As the public network is built, at a size that a test can afford, with random weights that are nowhere 0 or 1."""
    folder = narrow_folder()
    config = {**NARROW_UNET, "block_out_channels": [16, 32], "layers_per_block": 2}
    unet: nn.Module = library("diffusers").UNet2DConditionModel(**config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(3)
    for parameter in unet.parameters():
        parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    assert folder.is_dir()
    return unet


def test_the_unet_is_the_library_s() -> None:
    unet = two_blocks_a_level()
    latents, tokens = given(2)
    with torch.inference_mode():
        want = unet(latents, torch.tensor(0), encoder_hidden_states=tokens).sample
        made = FastUnet(unet, torch.float32)(latents, tokens)
        alone = FastUnet(unet, torch.float32)(latents[1:], tokens[1:])
    assert made.shape == (2, 32, 32, 8) and not made[..., 4:].any()
    assert relative(made[..., :4].permute(0, 3, 1, 2), want) < 2e-5
    assert relative(alone, made[1:]) < 1e-5, "items do not see each other"


@pytest.mark.parametrize("decoder", ["taesd", "vae"])
def test_the_painter_is_the_library_s_chain(decoder: str) -> None:
    folder = narrow_folder()
    painter = Painter(load_unet(folder), (load_taesd if decoder == "taesd" else load_vae)(folder))
    latents, tokens = given(2)
    with torch.inference_mode():
        want, got = painter(latents, tokens), FastPainter(painter, torch.float32)(latents, tokens)
    off = (got.int() - want.int()).abs()
    assert got.dtype == torch.uint8 and off.max() <= 1 and (off > 0).float().mean() < 1e-3
    assert float(want.float().std()) > 2


def test_the_small_decoder_is_the_library_s() -> None:
    taesd = load_taesd(narrow_folder())
    painted = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(1)) * 3
    padded = torch.cat([painted, torch.zeros_like(painted)], dim=1).permute(0, 2, 3, 1).contiguous()
    with torch.inference_mode():
        want = taesd(painted) / 2 + 0.5
        got = FastTaesd(taesd, torch.float32)(padded)
    assert relative(got.permute(0, 3, 1, 2), want) < 1e-5


def test_networks_with_other_parts_are_refused() -> None:
    unet: Any = copy.deepcopy(load_unet(narrow_folder()))
    unet.mid_block.resnets[0].output_scale_factor = 2.0
    with pytest.raises(UnsupportedNetworkError, match="block"):
        FastUnet(unet)
    unet = copy.deepcopy(load_unet(narrow_folder()))
    unet.mid_block.attentions[0].transformer_blocks[0].norm1.eps = 1e-3
    with pytest.raises(UnsupportedNetworkError, match="norms"):
        FastUnet(unet)
    taesd: Any = copy.deepcopy(load_taesd(narrow_folder()))
    taesd.layers[1] = nn.GELU()
    with pytest.raises(UnsupportedNetworkError, match="decoder"):
        FastTaesd(taesd)


def test_the_constants_are_baked_in() -> None:
    """Nothing of the fast network has the time embedding's parts, and no key or value is kept twice."""
    unet = two_blocks_a_level()
    made = FastUnet(unet, torch.float32)
    wanted = sum(p.numel() for name, p in unet.named_parameters() if "time" not in name)
    assert sum(b.numel() for b in made.buffers()) < 1.25 * wanted


@pytest.mark.gpu
@pytest.mark.parametrize("decoder", ["taesd", "vae"])
@pytest.mark.parametrize("count", [1, 3])
def test_half_precision_on_a_gpu_is_near(decoder: str, count: int) -> None:
    folder = narrow_folder()
    painter = Painter(two_blocks_a_level(), (load_taesd if decoder == "taesd" else load_vae)(folder))
    latents, tokens = given(count)
    with torch.inference_mode():
        want = painter(latents, tokens)
        got = FastPainter(painter).cuda()(latents.cuda(), tokens.cuda())
    assert got.is_cuda and float((got.cpu().float() - want.float()).square().mean().sqrt()) < 1.5
