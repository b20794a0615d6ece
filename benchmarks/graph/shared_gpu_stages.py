"""The four GPU stages as one call each, for `benchmarks.graph.shared_gpu`: the product's own fast ways of running, random weights.

`small` takes little networks, and a convolution in the renderer's place, so that the driver can be tried on a CPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, cast

import torch
from torch import Tensor

Work = Callable[[], object]
STAGES: Final = ("audio_features", "motion_diffusion", "renderer", "rife")
FRACTIONS: Final = {"audio_features": 0.1, "motion_diffusion": 0.2, "renderer": 0.4, "rife": 0.3}
"""Share of the GPU's memory that each process may have."""
CROPS: Final = 8


def stage_work(stage: str, device: str, *, small: bool) -> Work:
    """Make a function that does one call of a stage; on a GPU it replays a CUDA graph."""
    with torch.inference_mode():
        plain = _MAKERS[stage](device, small)
        return plain if device == "cpu" else _captured(plain)


def _captured(plain: Work) -> Work:
    if importlib.util.find_spec("triton") is not None:
        from kernels.triton_launch import compiling_in_parallel

        with compiling_in_parallel():
            plain()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own, without types
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            plain()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = plain()

    def replay() -> object:
        graph.replay()
        return (
            kept,
            plain,
        )  # what the graph reads lives as long as it does: an allocator short of memory gives freed blocks back

    return replay


def _audio_features(device: str, small: bool) -> Work:
    from engines.networks.ditto.hubert_encoder import HubertEncoder

    if small:
        made = HubertEncoder(width=64, layers=2, heads=4, feed_forward=128, conv_width=32, position_kernel=16)
    else:
        with torch.device(device):
            made = HubertEncoder()
    dtype = _half(device)
    network = made.eval().to(device=device, dtype=dtype)
    samples = 0.1 * torch.randn(2, 6480, device=device, dtype=dtype)
    return lambda: network(samples)


def _motion_diffusion(device: str, small: bool) -> Work:
    from engines.ditto.fast.sampler import FastSampler
    from engines.networks import build
    from engines.networks.lmdm import Lmdm

    lmdm = cast(Lmdm, build("mini/lmdm", guidance_weight=2.0) if small else build("ditto/lmdm"))
    steps = 2 if small else 10
    sampler = FastSampler(lmdm, steps, _half(device)).to(device)
    shapes = ((1, lmdm.motion_dim), (1, lmdm.seq_frames, lmdm.cond_dim), (1, steps, lmdm.seq_frames, lmdm.motion_dim))
    inputs = [0.5 * torch.randn(shape, device=device) for shape in shapes]
    return lambda: sampler(*inputs)


def _renderer(device: str, small: bool) -> Work:
    if small:
        layer = torch.nn.Conv2d(3, 3, 3, padding=1).to(device)
        picture = torch.rand(1, 3, 64, 64, device=device)
        return lambda: layer(picture)
    from engines.ditto.fast.render import FastRender
    from engines.networks import build
    from engines.networks.ditto.decoder import SpadeDecoder
    from engines.networks.ditto.warp_network import WarpNetwork

    warp, decoder = cast(WarpNetwork, build("ditto/warp_network")), cast(SpadeDecoder, build("ditto/decoder"))
    render = FastRender(warp, decoder, _half(device)).to(device)
    source = render.source(torch.randn(CROPS, 32, 16, 64, 64, device=device))
    keypoints = 0.3 * torch.randn(CROPS, 21, 3, device=device)
    driven = keypoints + 0.05 * torch.randn_like(keypoints)
    inputs = [tensor.contiguous() for tensor in (*source, keypoints, driven)]
    return lambda: render(*inputs)


def _rife(device: str, small: bool) -> Work:
    from engines.networks import build
    from engines.networks.rife.ifnet import IFNet
    from engines.rife.fast import FastEngine

    batch, size = (1, 64) if small else (CROPS, 512)
    folded = FastEngine(cast(IFNet, build("rife/4.25")), device, _half(device)).folded
    frames = torch.randint(0, 256, (batch, size, size, 3), dtype=torch.uint8, device=device)
    known, times = folded.encode(frames), torch.full((batch,), 0.5, device=device)
    return lambda: folded.between(known, folded.encode(frames), times, size, size)


def _half(device: str) -> torch.dtype:
    return torch.float32 if device == "cpu" else torch.float16


_MAKERS: Final[dict[str, Callable[[str, bool], Work]]] = {
    "audio_features": _audio_features,
    "motion_diffusion": _motion_diffusion,
    "renderer": _renderer,
    "rife": _rife,
}


def crops(device: str, dtype: torch.dtype) -> Tensor:
    """What the renderer hands over: 8 crops, 3 x 512 x 512."""
    if dtype == torch.uint8:
        return torch.randint(0, 256, (CROPS, 3, 512, 512), dtype=dtype, device=device)
    return torch.rand(CROPS, 3, 512, 512, device=device).to(dtype)
