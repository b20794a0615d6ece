from __future__ import annotations

import pytest
import torch
from torch import nn

from engines.networks.ditto.convolutions import SpectralConv2d, fold_spectral
from engines.networks.ditto.decoder import SpadeResidualBlock


def test_folding_keeps_the_outputs_and_leaves_no_spectral_convolution() -> None:
    torch.manual_seed(0)
    block = SpadeResidualBlock(32, 16).eval()
    x, segment = torch.randn(1, 32, 8, 8), torch.randn(1, 256, 4, 4)
    with torch.inference_mode():
        before = block(x, segment)
        fold_spectral(block)
        after = block(x, segment)
    torch.testing.assert_close(after, before)
    assert not any(isinstance(module, SpectralConv2d) for module in block.modules())
    assert isinstance(block.conv_s, nn.Conv2d) and block.conv_s.bias is None and block.conv_0.bias is not None


def test_a_folded_block_runs_under_autocast() -> None:
    block = SpadeResidualBlock(32, 16).eval()
    fold_spectral(block)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        out = block(torch.randn(1, 32, 8, 8), torch.randn(1, 256, 4, 4))
    assert out.dtype == torch.bfloat16 and bool(torch.isfinite(out).all())


@pytest.mark.parametrize("kernel", [1, 3])
def test_the_stored_vectors_define_sigma(kernel: int) -> None:
    torch.manual_seed(1)
    conv = SpectralConv2d(3, 4, kernel)
    sigma = conv.weight_u @ (conv.weight_orig.flatten(1) @ conv.weight_v)
    torch.testing.assert_close(conv.weight(), conv.weight_orig / sigma)
