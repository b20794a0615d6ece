"""The folded modules that are exported and run fast, against the reference modules under the formula weights, in float32."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from benchmarks.ditto.formula import filled
from engines.ditto.dense_motion_core import SPARSE, DenseMotionCore
from engines.ditto.fast.decoder import FastDecoder
from engines.ditto.fast.dense_motion import FastDenseMotion
from engines.ditto.fused_post_warp_decoder import FusedPostWarpDecoder, instance_norm
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.dense_motion import sample_volume
from engines.networks.ditto.warp_network import WarpNetwork
from kernels.conv.flat_maps import FlatShape, from_flat, to_flat
from kernels.conv.shuffled_pixels import shuffled_picture
from kernels.sampling.grid_sample_3d import grid_sample_3d
from tests.golden.support import normal, uniform, warped


@pytest.fixture(autouse=True)
def no_gradients() -> object:
    with torch.inference_mode():
        yield


HEIGHT, WIDTH = 24, 16
"""Maps of the decoder here: a tenth of the real 64 x 64, which the golden tests run, and not square."""


@cache
def warped_features() -> tuple[torch.Tensor, torch.Tensor]:
    """A warped volume and its occlusion."""
    volume = normal("folded/warped", (1, 32, 16, HEIGHT, WIDTH), 0.6)
    return volume, uniform("folded/occlusion", (1, 1, HEIGHT, WIDTH), 0.0, 1.0)


@cache
def reference_picture() -> torch.Tensor:
    """What the reference modules draw from them."""
    warp, decoder = filled("warp_network"), filled("decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)
    picture: torch.Tensor = decoder(warp.post_warp(*warped_features()))
    return picture


def test_dense_motion_core_is_dense_motion() -> None:
    warp, run = filled("warp_network"), warped()
    assert isinstance(warp, WarpNetwork)
    core = DenseMotionCore(warp.dense_motion_network)
    sampled = grid_sample_3d(core.compress(run.volume), core.sparse_motions(run.source, run.driving))
    deformation, occlusion = core(sampled.reshape(1, SPARSE * 4, 16, 64, 64), run.source, run.driving)
    assert (deformation - run.motion.deformation).abs().max() < 2e-5
    assert (occlusion - run.motion.occlusion).abs().max() < 2e-5


def test_post_warp_decoder_is_post_warp_and_decoder() -> None:
    warp, decoder = filled("warp_network"), filled("decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)
    before = {name: value.clone() for name, value in decoder.state_dict().items()}
    fused = FusedPostWarpDecoder(warp, decoder)
    volume, occlusion = warped_features()
    want = reference_picture()
    got = fused(volume.flatten(1, 2), occlusion)
    assert got.shape == (1, 3, 8 * HEIGHT, 8 * WIDTH)
    assert (got - want).abs().max() < 1e-5
    assert all(torch.equal(value, before[name]) for name, value in decoder.state_dict().items())


def test_instance_norm_is_torchs() -> None:
    x = normal("folded/norm", (2, 5, 9, 7), 3.0) + 20.0
    torch.testing.assert_close(instance_norm(x), torch.nn.functional.instance_norm(x), atol=1e-5, rtol=0)


def test_the_fast_decoder_is_post_warp_and_decoder() -> None:
    warp, decoder = filled("warp_network"), filled("decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)
    volume, occlusion = warped_features()
    shape = FlatShape(1, HEIGHT, WIDTH)
    by_depth = to_flat(volume.permute(0, 3, 4, 2, 1).flatten(3)).contiguous()
    logits = FastDecoder(warp, decoder, dtype=torch.float32)(
        by_depth, to_flat(occlusion.permute(0, 2, 3, 1))[:, 0].contiguous(), shape
    )
    want = reference_picture()
    got = shuffled_picture(logits, shape.scaled(4))
    assert (got - want).abs().max() < 2e-5


def test_the_fast_dense_motion_warps_like_the_reference() -> None:
    warp, run = filled("warp_network"), warped()
    assert isinstance(warp, WarpNetwork)
    want = sample_volume(run.volume, run.motion.deformation).permute(0, 3, 4, 2, 1).flatten(3)
    fast = FastDenseMotion(warp.dense_motion_network, torch.float32)
    features, occlusion = fast(fast.source(run.volume), run.source, run.driving)
    shape = FlatShape(1, 64, 64)
    assert (from_flat(features, shape) - want).abs().max() < 5e-4
    assert (from_flat(occlusion[:, None], shape)[..., 0] - run.motion.occlusion[:, 0]).abs().max() < 2e-5
