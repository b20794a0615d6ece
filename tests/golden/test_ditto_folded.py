"""The folded modules that are exported and run fast, against the reference modules under the formula weights, in float32."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from engines.ditto.dense_motion_core import SPARSE, DenseMotionCore
from engines.ditto.fast.decoder import FastDecoder
from engines.ditto.fast.dense_motion import FastDenseMotion
from engines.ditto.fused_post_warp_decoder import FusedPostWarpDecoder, instance_norm
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.dense_motion import sample_volume
from engines.networks.ditto.warp_network import WarpNetwork
from kernels.flat_maps import FlatShape, from_flat, to_flat
from kernels.grid_sample_3d import grid_sample_3d
from kernels.shuffled_pixels import shuffled_picture
from tests.golden.support import filled, normal, uniform


@pytest.fixture(autouse=True)
def no_gradients() -> object:
    with torch.inference_mode():
        yield


@cache
def warped_features() -> tuple[torch.Tensor, torch.Tensor]:
    """A warped volume and its occlusion."""
    volume = normal("warp_network/feature_3d", (1, 32, 16, 64, 64))
    warped = sample_volume(volume, uniform("folded/grid", (1, 16, 64, 64, 3), -1.0, 1.0))
    return warped, uniform("folded/occlusion", (1, 1, 64, 64), 0.0, 1.0)


@cache
def reference_picture() -> torch.Tensor:
    """What the reference modules draw from them."""
    warp, decoder = filled("warp_network"), filled("decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)
    picture: torch.Tensor = decoder(warp.post_warp(*warped_features()))
    return picture


def test_dense_motion_core_is_dense_motion() -> None:
    warp = filled("warp_network")
    assert isinstance(warp, WarpNetwork)
    volume = normal("warp_network/feature_3d", (1, 32, 16, 64, 64))
    source = uniform("warp_network/kp_source", (1, 21, 3), -0.7, 0.7)
    driving = source + normal("warp_network/kp_delta", (1, 21, 3), 0.06)
    want = warp.dense_motion_network(volume, source, driving)
    core = DenseMotionCore(warp.dense_motion_network)
    sampled = grid_sample_3d(core.compress(volume), core.sparse_motions(source, driving))
    deformation, occlusion = core(sampled.reshape(1, SPARSE * 4, 16, 64, 64), source, driving)
    assert (deformation - want.deformation).abs().max() < 2e-5
    assert (occlusion - want.occlusion).abs().max() < 2e-5


def test_post_warp_decoder_is_post_warp_and_decoder() -> None:
    warp, decoder = filled("warp_network"), filled("decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)
    before = {name: value.clone() for name, value in decoder.state_dict().items()}
    fused = FusedPostWarpDecoder(warp, decoder)
    warped, occlusion = warped_features()
    want = reference_picture()
    got = fused(warped.flatten(1, 2), occlusion)
    assert got.shape == (1, 3, 512, 512)
    assert (got - want).abs().max() < 1e-5
    assert all(torch.equal(value, before[name]) for name, value in decoder.state_dict().items())


def test_instance_norm_is_torchs() -> None:
    x = normal("folded/norm", (2, 5, 9, 7), 3.0) + 20.0
    torch.testing.assert_close(instance_norm(x), torch.nn.functional.instance_norm(x), atol=1e-5, rtol=0)


def test_the_fast_decoder_is_post_warp_and_decoder() -> None:
    warp, decoder = filled("warp_network"), filled("decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)
    warped, occlusion = warped_features()
    shape = FlatShape(1, 64, 64)
    by_depth = to_flat(warped.permute(0, 3, 4, 2, 1).flatten(3)).contiguous()
    logits = FastDecoder(warp, decoder, dtype=torch.float32)(
        by_depth, to_flat(occlusion.permute(0, 2, 3, 1))[:, 0].contiguous(), shape
    )
    want = reference_picture()
    got = shuffled_picture(logits, shape.scaled(4))
    assert (got - want).abs().max() < 2e-5


def test_the_fast_dense_motion_warps_like_the_reference() -> None:
    warp = filled("warp_network")
    assert isinstance(warp, WarpNetwork)
    volume = normal("warp_network/feature_3d", (1, 32, 16, 64, 64))
    source = uniform("warp_network/kp_source", (1, 21, 3), -0.7, 0.7)
    driving = source + normal("warp_network/kp_delta", (1, 21, 3), 0.06)
    motion = warp.dense_motion_network(volume, source, driving)
    want = sample_volume(volume, motion.deformation).permute(0, 3, 4, 2, 1).flatten(3)
    fast = FastDenseMotion(warp.dense_motion_network, torch.float32)
    warped, occlusion = fast(fast.source(volume), source, driving)
    shape = FlatShape(1, 64, 64)
    assert (from_flat(warped, shape) - want).abs().max() < 5e-4
    assert (from_flat(occlusion[:, None], shape)[..., 0] - motion.occlusion[:, 0]).abs().max() < 2e-5
