"""The fast renderer on CUDA: numbers against float32 eager, replays that do not touch each other, choice of the runtime."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from benchmarks.ditto.formula import filled
from engines.ditto.fast.render import FastRender
from engines.ditto.fast.runtime import FastRenderRuntime
from engines.ditto.render_runtime import example, render_runtime

pytestmark = pytest.mark.gpu
MIN_PSNR_DB = 60.0


@pytest.fixture(scope="module")
def runtime() -> FastRenderRuntime:
    made = FastRenderRuntime(FastRender(filled("warp_network"), filled("decoder")), "cuda", (1, 2, 4))  # type: ignore[arg-type]
    made.prepare()
    return made


@pytest.fixture(autouse=True)
def exact_float32() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with torch.inference_mode():
        yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def test_pictures_are_float32_eagers(runtime: FastRenderRuntime) -> None:
    volume, source, driving = (part.cuda() for part in example(3, seed=5))
    warp, decoder = filled.__wrapped__("warp_network").cuda(), filled.__wrapped__("decoder").cuda()
    exact = decoder(warp(volume.expand(3, -1, -1, -1, -1), source, driving))
    module = runtime._module
    tensors = (part.expand(3, *part.shape[1:]).contiguous() for part in runtime.source(volume))
    picture = module.picture(*tensors, source, driving)
    assert torch.isfinite(picture).all()
    assert -10 * torch.log10((picture - exact).square().mean()) >= MIN_PSNR_DB
    crops = runtime.run(volume, source, driving).float().permute(0, 3, 1, 2)
    assert (crops - exact * 255).abs().max() <= 2.0  # the picture's error, and half a level of rounding


def test_replays_for_interleaved_sessions_do_not_touch_each_other(runtime: FastRenderRuntime) -> None:
    sessions = [example(count, seed=10 + count) for count in (1, 2, 3, 4, 7)]
    alone = [runtime.run(*inputs).cpu() for inputs in sessions]
    wrong: list[int] = []

    def session(index: int) -> None:
        with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(4):
                if not torch.equal(runtime.run(*sessions[index]).cpu(), alone[index]):
                    wrong.append(index)

    threads = [threading.Thread(target=session, args=(index,)) for index in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_frame_is_the_same_in_every_bucket(runtime: FastRenderRuntime) -> None:
    volume, source, driving = example(7, seed=3)
    together: Tensor = runtime.run(volume, source, driving)
    for index in (0, 3, 6):
        one = runtime.run(volume, source[index : index + 1], driving[index : index + 1])
        off = (one.int() - together[index : index + 1].int()).abs()
        # cuDNN takes other algorithms for other batches: rounding differs, in fp16
        assert off.max() <= 2 and (off > 1).float().mean() < 1e-4


def test_auto_takes_the_compiled_way() -> None:
    chosen = render_runtime(filled.__wrapped__("warp_network"), filled.__wrapped__("decoder"), "cuda", prepare=False)
    assert chosen.name == "compiled"
