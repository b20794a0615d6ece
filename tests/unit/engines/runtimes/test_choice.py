"""Which way of running is taken, and why; fakes stand for the ways, no GPU is needed."""

from __future__ import annotations

import math

import pytest
import structlog
import torch
from torch import Tensor

from engines.ditto.motion_runtime import compiled_runtime, example, motion_runtime
from engines.networks import build
from engines.networks.lmdm import Lmdm
from engines.runtimes.choice import RuntimeRefusedError, call_ms, choose_runtime, fastest, relative_error
from engines.runtimes.protocol import Runtime
from kernels.errors import InvalidInputError, LiveAnchorError

INPUTS = [(torch.arange(1.0, 5.0),), (torch.arange(2.0, 6.0),)]


class Fake:
    """Multiplies; `ms` is what the fake clock gives it."""

    def __init__(self, name: str, factor: float = 2.0, *ms: float) -> None:
        self.name = name
        self.device = torch.device("cpu")
        self.ms = ms * len(INPUTS) if len(ms) == 1 else ms
        self._factor = factor

    def run(self, *inputs: Tensor) -> Tensor:
        return inputs[0] * self._factor


class MissingError(LiveAnchorError):
    """A library is not there."""


def missing() -> Runtime:
    raise MissingError("no library\nsecond line")


def broken() -> Runtime:
    raise RuntimeError("CUDA error: no kernel image")


class Large(Fake):
    """Has the memory for so many of the inputs."""

    def __init__(self, name: str, fits: int, *ms: float) -> None:
        super().__init__(name, 2.0, *ms)
        self._fits = fits

    def run(self, *inputs: Tensor) -> Tensor:
        if inputs[0] is INPUTS[self._fits][0]:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().run(*inputs)


def choose(wanted: str, device: str = "cuda", eager: Fake | None = None, **others) -> Runtime:
    made = {
        name: (lambda name=name, other=other: Fake(name, *other)) if isinstance(other, tuple) else other
        for name, other in others.items()
    }
    return choose_runtime(
        wanted,
        lambda: eager or Fake("eager", 2.0, 10.0),
        made,
        INPUTS,
        stage="test",
        device=device,
        max_error=1e-2,
        measure=lambda runtime, inputs: runtime.ms[inputs is INPUTS[1]],
    )


def test_auto_takes_the_fastest_that_verifies() -> None:
    assert choose("auto", compiled=(2.0, 3.0), tensorrt=(2.0, 2.0)).name == "tensorrt"
    assert choose("auto", compiled=(2.0, 2.0), tensorrt=(2.001, 2.2)).name == "compiled"
    assert choose("auto", compiled=(2.0, 3.0), tensorrt=(2.1, 1.0)).name == "compiled"
    assert choose("auto", compiled=(math.nan, 1.0)).name == "eager"
    assert choose("auto", compiled=(2.0, 11.0)).name == "eager"
    assert choose("auto").name == "eager"


def test_auto_never_takes_what_loses_to_compiled_anywhere() -> None:
    assert choose("auto", compiled=(2.0, 2.0, 8.0), tensorrt=(2.0, 0.5, 8.2)).name == "tensorrt"
    assert choose("auto", compiled=(2.0, 2.0, 8.0), tensorrt=(2.0, 0.5, 8.8)).name == "compiled"
    assert choose("auto", compiled=broken, tensorrt=(2.0, 0.5, 8.8)).name == "tensorrt"
    assert fastest({"eager": (5.0,), "compiled": (9.0,)}) == "eager"


@pytest.mark.parametrize("wanted", ["auto", "compiled"])
def test_a_reference_that_lacks_memory_for_a_large_batch_compares_the_small_one(wanted: str) -> None:
    assert choose(wanted, eager=Large("eager", 1, 10.0, 1.0), compiled=(2.0, 3.0)).name == "compiled"
    with pytest.raises(RuntimeError, match="out of memory"):
        choose(wanted, eager=Large("eager", 0, 10.0, 1.0), compiled=(2.0, 3.0))


def test_auto_goes_on_where_a_way_cannot_be_made() -> None:
    assert choose("auto", compiled=(2.0, 3.0), tensorrt=missing).name == "compiled"
    assert choose("auto", compiled=broken, tensorrt=missing).name == "eager"


def test_a_fault_without_a_text_stops_nothing() -> None:
    def silent() -> Fake:
        raise RuntimeError

    with structlog.testing.capture_logs() as logs:
        assert choose("auto", compiled=(2.0, 3.0), tensorrt=silent).name == "compiled"
    assert logs[0]["tensorrt"] == "RuntimeError"


def test_auto_says_why_once() -> None:
    with structlog.testing.capture_logs() as logs:
        choose("auto", compiled=(2.0, 3.0), tensorrt=missing, other=(3.0, 1.0))
    (entry,) = logs
    assert entry["runtime"] == "compiled" and entry["stage"] == "test"
    assert entry["eager"].startswith("10.000 and 10.000 ms")
    assert entry["tensorrt"] == "MissingError: no library"
    assert "is off" in entry["other"]


def test_the_cpu_runs_eagerly_and_makes_nothing_else() -> None:
    assert choose("auto", device="cpu", compiled=broken).name == "eager"
    with pytest.raises(RuntimeRefusedError, match="needs a GPU"):
        choose("compiled", device="cpu", compiled=(2.0, 1.0))


def test_a_named_way_is_taken_however_slow_or_refused() -> None:
    assert choose("eager", compiled=(2.0, 1.0)).name == "eager"
    assert choose("compiled", compiled=(2.0, 99.0)).name == "compiled"
    with pytest.raises(RuntimeRefusedError, match="no library"):
        choose("tensorrt", tensorrt=missing)
    with pytest.raises(RuntimeRefusedError, match="is off"):
        choose("compiled", compiled=(2.5, 1.0))
    with pytest.raises(RuntimeRefusedError, match="has no runtime tensorrt; it has eager, compiled"):
        choose("tensorrt", compiled=(2.0, 1.0))
    with pytest.raises(InvalidInputError, match="runtime"):
        choose("fastest")


def test_errors_and_times() -> None:
    assert relative_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])) == 0.0
    assert relative_error(torch.tensor([1.0]), torch.tensor([1.0, 2.0])) == math.inf
    assert relative_error(torch.tensor([math.nan]), torch.tensor([1.0])) == math.inf
    assert call_ms(Fake("eager"), INPUTS[0]) >= 0.0


def test_the_motion_model_on_the_cpu_is_eager_and_its_compiled_way_gives_the_same() -> None:
    lmdm = build("mini/lmdm", cond_dim=37, seq_frames=20, latent=64, heads=4, layers=2, guidance_weight=2.0)
    assert isinstance(lmdm, Lmdm)
    eager = motion_runtime(lmdm, 3, "cpu")
    assert eager.name == "torch"
    compiled = compiled_runtime(lmdm, 3, "cpu", torch.float32, (1, 2))
    given = example(lmdm, 3, 5, seed=4)
    assert relative_error(compiled.run(*given), eager.run(*given)) < 1e-5
    with pytest.raises(RuntimeRefusedError):
        motion_runtime(lmdm, 3, "cpu", "tensorrt")


@pytest.mark.gpu
def test_on_a_gpu_auto_takes_the_fused_loop_or_something_faster() -> None:
    lmdm = build("ditto/lmdm", seed=3)
    assert isinstance(lmdm, Lmdm)
    with structlog.testing.capture_logs() as logs:
        chosen = motion_runtime(lmdm, 10, "cuda")
    assert chosen.name != "torch" or "tensorrt" in str(logs)
    compiled = compiled_runtime(lmdm, 10, "cuda", buckets=(1,))
    given = tuple(tensor.cuda() for tensor in example(lmdm, 10, 1))
    assert call_ms(chosen, given) <= 1.05 * call_ms(compiled, given)
