"""The renderer's ways of running: choice, source-only work done once, buckets without padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from engines.ditto.fast.dense_motion import SourceTensors
from engines.ditto.fast.runtime import FastRenderRuntime
from engines.ditto.render_runtime import SourceRuntime, TensorRtSynthesis, engine_runtime, example, render_runtime
from engines.runtimes.choice import RuntimeRefusedError
from engines.runtimes.cuda_graphs import BucketedGraph
from kernels.errors import InvalidInputError


class TinyRender(nn.Module):
    """A `FastRender` in shape alone: every picture is its items' sum."""

    def __init__(self) -> None:
        super().__init__()
        self.dense_motion = nn.Module()
        self.dense_motion.dtype = torch.float32  # type: ignore[assignment]
        self.sizes: list[int] = []
        self.sources = 0

    def source(self, volume: Tensor) -> SourceTensors:
        self.sources += 1
        return SourceTensors(volume.flatten(1).sum(1, keepdim=True), volume[:, 0, 0, 0, :1])

    def forward(self, volume: Tensor, compressed: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        self.sizes.append(len(kp_driving))
        return volume + compressed + kp_source.sum((1, 2))[:, None] + kp_driving.sum((1, 2))[:, None]


def runtime(buckets: tuple[int, ...] = (1, 2, 4)) -> tuple[FastRenderRuntime, TinyRender]:
    module = TinyRender()
    return FastRenderRuntime(module, "cpu", buckets), module  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "cut"), [(1, [1]), (3, [2, 1]), (4, [4]), (7, [4, 2, 1]), (9, [4, 4, 1])])
def test_batches_are_cut_into_buckets_without_padding(count: int, cut: list[int]) -> None:
    made, module = runtime()
    volume = torch.randn(count, 2, 2, 2, 2)
    source, driving = torch.randn(count, 21, 3), torch.randn(count, 21, 3)
    got = made.run(volume, source, driving)
    assert module.sizes == cut
    torch.testing.assert_close(got, TinyRender()(*TinyRender().source(volume), source, driving))


def test_one_picture_serves_all_poses_and_its_work_is_done_once() -> None:
    made, module = runtime()
    volume, driving = torch.randn(1, 2, 2, 2, 2), torch.randn(5, 21, 3)
    source = made.source(volume)
    first = made.draw(source, driving[:1], driving)
    second = made.draw(source, driving[:1], driving)
    assert module.sources == 1 and torch.equal(first, second) and first.shape == (5, 1)
    assert isinstance(made, SourceRuntime) and made.name == "compiled"


def test_on_the_cpu_only_eager_runs() -> None:
    warp, decoder = nn.Identity(), nn.Identity()
    assert render_runtime(warp, decoder, "cpu").name == "torch"
    with pytest.raises(RuntimeRefusedError, match="renderer.*compiled needs a GPU"):
        render_runtime(warp, decoder, "cpu", "compiled")
    with pytest.raises(InvalidInputError, match="runtime"):
        render_runtime(warp, decoder, "cpu", "fastest")  # type: ignore[arg-type]


def test_engines_get_what_their_inputs_are_called() -> None:
    seen: dict[str, tuple[torch.Size, ...]] = {}

    def core(deformed: Tensor, kp_source: Tensor, kp_driving: Tensor) -> tuple[Tensor, Tensor]:
        seen["core"] = (deformed.shape, kp_source.shape, kp_driving.shape)
        return torch.zeros(2, 16, 64, 64, 3), torch.ones(2, 1, 64, 64)

    def decoder(warped: Tensor, occlusion: Tensor) -> tuple[Tensor]:
        seen["decoder"] = (warped.shape, occlusion.shape)
        return (torch.full((2, 3, 4, 4), 0.5),)

    made = TensorRtSynthesis(
        lambda volume: volume[:, :4], lambda source, driving: torch.zeros(44, 16, 64, 64, 3), core, decoder
    )
    pictures = made(*example(2))
    assert seen["core"] == ((2, 88, 16, 64, 64), (2, 21, 3), (2, 21, 3))
    assert seen["decoder"] == ((2, 512, 64, 64), (2, 1, 64, 64))
    assert pictures.dtype == torch.uint8 and pictures.shape == (2, 4, 4, 3) and pictures.eq(128).all()


def test_engines_run_in_captured_sizes_and_one_picture_serves_all_poses() -> None:
    sizes: list[int] = []

    def core(deformed: Tensor, kp_source: Tensor, kp_driving: Tensor) -> tuple[Tensor, Tensor]:
        sizes.append(len(deformed))
        shade = kp_driving.mean((1, 2)).sigmoid()[:, None, None, None]
        return torch.zeros(len(deformed), 2, 2, 2, 3), shade.expand(-1, 1, 2, 2)

    def decoder(warped: Tensor, occlusion: Tensor) -> tuple[Tensor]:
        return (occlusion.float().mean((1, 2, 3))[:, None, None, None].expand(-1, 3, 4, 4),)

    made = TensorRtSynthesis(
        lambda volume: volume[:, :4, :1, :1, :1],
        lambda source, driving: torch.zeros(22 * len(driving), 16, 64, 64, 3),
        core,
        decoder,
    )
    runtime = engine_runtime(made, "cpu", (1, 2), prepare=False)
    volume, source, driving = example(3)
    pictures = runtime.run(volume, source, driving)
    assert runtime.name == "tensorrt" and sizes == [2, 1]
    assert torch.equal(pictures, made(volume, source, driving)) and len(pictures) == 3


def test_buckets_are_the_graphs() -> None:
    made, _ = runtime((1, 2))
    assert isinstance(made._graph, BucketedGraph) and made._graph.buckets == (1, 2)
