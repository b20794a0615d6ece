"""The painter's ways of running: the same faces, whatever the batch, and no way that this machine does not have."""

from __future__ import annotations

import pytest
import torch

from engines.musetalk.checkpoints import load_taesd, load_unet
from engines.musetalk.painter import Painter
from engines.musetalk.painter_runtime import (
    BUCKETS,
    VAE_BUCKETS,
    buckets_up_to,
    compiled_runtime,
    eager_runtime,
    example,
    painter_runtime,
)
from engines.runtimes.choice import RuntimeRefusedError, relative_error
from tests.support.musetalk import narrow_folder


def painter() -> Painter:
    folder = narrow_folder()
    return Painter(load_unet(folder), load_taesd(folder))


def test_the_compiled_way_gives_the_eager_one_s_faces_at_any_batch() -> None:
    """Buckets are filled, padded, and passed: 1, 2 of 3, 3 + 2."""
    made = painter()
    eager, compiled = eager_runtime(made, "cpu"), compiled_runtime(made, "cpu", (1, 3), torch.float32)
    assert compiled.name == "compiled"
    for count in (1, 2, 5):
        got, want = compiled.run(*example(count)).int(), eager.run(*example(count)).int()
        assert got.shape == (count, 256, 256, 3) and (got - want).abs().max() <= 1


def test_on_a_cpu_only_eager_runs() -> None:
    made = painter()
    assert painter_runtime(made, "cpu").name == "torch"
    with pytest.raises(RuntimeRefusedError, match="painter: runtime compiled needs a GPU"):
        painter_runtime(made, "cpu", "compiled")
    assert BUCKETS[0] == 1 and BUCKETS[-1] == 64
    assert all(b <= 2 * a for a, b in zip(BUCKETS, BUCKETS[1:], strict=False))
    assert buckets_up_to(32) == BUCKETS[: BUCKETS.index(32) + 1] and buckets_up_to(64) == buckets_up_to(100) == BUCKETS
    assert buckets_up_to(20)[-1] == 24 and buckets_up_to(1) == (1,) and buckets_up_to(32, is_vae=True) == VAE_BUCKETS


@pytest.mark.gpu
def test_a_gpu_s_ways_agree_and_the_choice_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    made = painter()
    last = made.decoder.layers[-1]  # type: ignore[index, union-attr]  # a Sequential, to the type checker a module
    with torch.inference_mode():
        spread = made.decoder(made.unet(example(1)[0], made.timestep, example(1)[1], return_dict=False)[0]).std() / 2
    last.weight.data *= 0.2 / float(spread)  # under the formula nearly every colour is cut, and what is not says little
    last.bias.data.fill_(0.5)
    eager, compiled = eager_runtime(made, "cuda"), compiled_runtime(made, "cuda", (1, 4))
    for count in (1, 3, 6):
        assert relative_error(compiled.run(*example(count)).cpu(), eager.run(*example(count)).cpu()) < 2e-2
    assert painter_runtime(made, "cuda", "auto", 4).name in ("compiled", "torch")
    assert painter_runtime(made, "cuda", "compiled", 4).name == "compiled"
