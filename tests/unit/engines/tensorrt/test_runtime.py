"""Binding and running an engine over a stand-in of the library that works on host memory; verification; loading."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engines.runtimes.protocol import Runtime
from engines.tensorrt import load as load_module
from engines.tensorrt.errors import EngineOffError, EngineRunError
from engines.tensorrt.library import Library
from engines.tensorrt.load import EngineSettings, load_or_build
from engines.tensorrt.runtime import TensorRtRuntime
from engines.tensorrt.spec import EngineSpec, Gate
from engines.tensorrt.target import Target
from engines.tensorrt.verify import agreement, compare, verify, worst
from kernels.errors import ShapeError
from tests.support.tensorrt import TINY, Tiny


class Severity(IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2


class ILogger:
    Severity = Severity


class Context:
    """Computes the tiny network at the addresses it was given."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.shape_calls = 0
        self.profile = 0

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        assert not self.shapes, "a profile is chosen before shapes"
        self.profile = index
        return True

    def set_device_memory(self, address: int, size: int) -> None:
        assert address and size == self.engine.device_memory_size_v2

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.shape_calls += 1
        self.shapes[name] = shape
        return shape != self.engine.refused

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (self.shapes["image"][0], 4, 8, 8)

    def set_tensor_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return True

    def execute_async_v3(self, stream: int) -> bool:
        if self.engine.fails:
            self.engine.log.log(Severity.ERROR, "kernel  launch\nfailed")
            return False
        image = torch.from_numpy(self._array("image", self.shapes["image"], np.float16).astype(np.float32))
        shift = torch.from_numpy(self._array("shift", self.shapes["shift"], np.float32).copy())
        with torch.inference_mode():
            made = Tiny()(image, shift).numpy() * self.engine.gain
        self._array("out", made.shape, np.float16)[:] = made
        return True

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(self.addresses[name]), dtype).reshape(shape)


class Engine:
    device_memory_size_v2 = 64
    refused: tuple[int, ...] = ()
    fails = False
    gain = 1.0
    names = ("image", "shift", "out")

    def __init__(self, log: Any) -> None:
        self.log = log
        self.contexts: list[Context] = []
        self.num_io_tensors = len(self.names)

    def get_tensor_name(self, index: int) -> str:
        return self.names[index]

    def get_tensor_dtype(self, name: str) -> Any:
        return SimpleNamespace(name="FLOAT" if name == "shift" else "HALF")

    def create_runtime_config(self) -> Any:
        chosen: dict[str, object] = {}
        return SimpleNamespace(
            chosen=chosen, set_execution_context_allocation_strategy=lambda s: chosen.update(memory=s)
        )

    def create_execution_context(self, config: Any) -> Context:
        assert config.chosen == {"memory": "ours"}
        self.contexts.append(Context(self))
        return self.contexts[-1]


def library_of(engine_type: type[Engine] = Engine) -> Library:
    class RuntimeApi:
        def __init__(self, log: Any) -> None:
            self.log = log

        def deserialize_cuda_engine(self, plan: bytes) -> Engine | None:
            if plan != b"plan":
                self.log.log(Severity.ERROR, "magic tag does not match")
                return None
            return engine_type(self.log)

    strategies = SimpleNamespace(USER_MANAGED="ours")
    api = SimpleNamespace(ILogger=ILogger, Runtime=RuntimeApi, ExecutionContextAllocationStrategy=strategies)
    return Library("tensorrt", "10.15.0", api)


def runtime_of(engine_type: type[Engine] = Engine, spec: EngineSpec = TINY) -> TensorRtRuntime:
    return TensorRtRuntime(spec, b"plan", library_of(engine_type), "cpu")


def test_it_is_a_runtime_and_gives_the_engines_numbers() -> None:
    runtime = runtime_of()
    assert isinstance(runtime, Runtime) and runtime.name == "tensorrt"
    for batch in (1, 4):
        image, shift = TINY.random_inputs(batch, seed=batch)
        out = runtime.run(image, shift)
        assert out.dtype == torch.float16 and out.shape == (batch, 4, 8, 8)
        torch.testing.assert_close(out.float(), Tiny()(image.float(), shift).detach(), atol=5e-3, rtol=1e-2)


def test_outputs_belong_to_the_caller() -> None:
    runtime = runtime_of()
    first = runtime.run(*TINY.random_inputs(2, seed=1))
    kept = first.clone()
    runtime.run(*TINY.random_inputs(2, seed=2))
    torch.testing.assert_close(first, kept)


def test_inputs_are_converted_and_made_contiguous() -> None:
    image, shift = TINY.random_inputs(2)
    turned = image.float().permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2)
    assert not turned.is_contiguous()
    torch.testing.assert_close(runtime_of().run(turned, shift.double()), runtime_of().run(image, shift))


def test_every_batch_size_has_a_context_whose_shapes_never_change() -> None:
    """A captured CUDA graph is good for the state that its context had."""
    runtime = runtime_of()
    for batch in (2, 3, 2, 2, 3):
        runtime.run(*TINY.random_inputs(batch))
    contexts = runtime._engine.contexts
    assert [context.shapes["image"][0] for context in contexts] == [2, 3]
    assert [context.shape_calls for context in contexts] == [2, 2]  # once per input


def test_a_batch_runs_under_the_profile_of_its_range() -> None:
    spec = replace(TINY, ranges=((1, 1, 1), (2, 2, 3), (4, 4, 4)))
    runtime = TensorRtRuntime(spec, b"plan", library_of(), "cpu")
    for batch in (4, 1, 3, 2):
        out = runtime.run(*spec.random_inputs(batch))
        assert len(out) == batch
    assert [context.profile for context in runtime._engine.contexts] == [2, 0, 1, 1]


@pytest.mark.parametrize(
    ("image", "shift"),
    [((2, 3, 8, 9), (2, 4)), ((2, 3, 8, 8), (3, 4)), ((0, 3, 8, 8), (0, 4)), ((5, 3, 8, 8), (5, 4)), ((3, 8, 8), (4,))],
)
def test_inputs_that_do_not_fit_are_refused(image: tuple[int, ...], shift: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError):
        runtime_of().run(torch.zeros(image), torch.zeros(shift))


def test_a_missing_input_is_refused() -> None:
    with pytest.raises(ShapeError, match="image, shift"):
        runtime_of().run(torch.zeros(1, 3, 8, 8))


def test_a_plan_of_another_library_does_not_load() -> None:
    with pytest.raises(EngineRunError, match="magic tag"):
        TensorRtRuntime(TINY, b"other", library_of(), "cpu")


def test_an_engine_with_other_tensors_does_not_load() -> None:
    class Other(Engine):
        names = ("image", "offset", "out")

    with pytest.raises(EngineRunError, match="offset"):
        runtime_of(Other)


def test_what_tensorrt_says_is_passed_on() -> None:
    class Failing(Engine):
        fails = True

    with pytest.raises(EngineRunError, match="kernel launch failed"):
        runtime_of(Failing).run(*TINY.random_inputs(1))


def test_a_shape_that_is_refused_is_named() -> None:
    class Refusing(Engine):
        refused = (2, 4)

    with pytest.raises(EngineRunError, match="shift"):
        runtime_of(Refusing).run(*TINY.random_inputs(2))


def test_a_right_engine_verifies() -> None:
    found = verify(TINY, runtime_of().run_all, Tiny(), device="cpu")
    assert found.relative_error < 2e-3 and found.cosine > 0.99999


def test_an_engine_that_is_off_is_refused() -> None:
    class Off(Engine):
        gain = 1.02

    with pytest.raises(EngineOffError, match="not used"):
        verify(TINY, runtime_of(Off).run_all, Tiny(), device="cpu")
    assert compare(TINY, runtime_of(Off).run_all, Tiny(), device="cpu").relative_error == pytest.approx(0.02, rel=0.1)


def test_agreement_knows_nan_shape_and_zero() -> None:
    one = torch.ones(4)
    assert not agreement(torch.tensor([1.0, float("nan"), 1.0, 1.0]), one).passes(Gate(1.0, min_cosine=-1.0))
    assert not agreement(torch.ones(3), one).passes(Gate(1.0, min_cosine=-1.0))
    assert agreement(one, one).passes(Gate(0.0, min_cosine=1.0 - 1e-12, min_psnr_db=300.0))
    assert agreement(torch.zeros(4), torch.zeros(4)).relative_error == 0.0
    assert agreement(one, torch.zeros(4)).relative_error == float("inf")
    assert worst([agreement(one, one), agreement(one * 1.1, one)]).relative_error == pytest.approx(0.1)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """`load_or_build` over the stand-in; the list notes what was done."""
    done: list[str] = []
    monkeypatch.setattr(load_module, "find_library", lambda flavour: library_of())
    monkeypatch.setattr(load_module, "choose_target", lambda library, device: Target("sm_90", "H200", True))

    def export(spec: EngineSpec, module: torch.nn.Module) -> Any:
        done.append("export")
        return SimpleNamespace(onnx=b"graph of " + str(module.gain).encode())

    def build(*arguments: Any, **named: Any) -> bytes:
        done.append("build")
        return b"plan"

    monkeypatch.setattr(load_module, "export", export)
    monkeypatch.setattr(load_module, "build_plan", build)
    return done


def test_an_engine_is_built_once_and_then_loaded(prepared: list[str], tmp_path: Path) -> None:
    settings = EngineSettings(folder=tmp_path, device="cpu")
    inputs = TINY.random_inputs(2)
    load_or_build(TINY, Tiny(), inputs, settings)
    assert prepared == ["export", "build"]
    load_or_build(TINY, Tiny(), inputs, settings)
    assert prepared == ["export", "build"]  # neither exported nor built again


def test_other_weights_are_another_engine_and_one_that_is_off_does_not_serve(
    prepared: list[str], tmp_path: Path
) -> None:
    settings = EngineSettings(folder=tmp_path, device="cpu")
    with pytest.raises(EngineOffError):
        load_or_build(TINY, Tiny(gain=2.0), TINY.random_inputs(2), settings)  # the stand-in has gain 1
    assert prepared == ["export", "build"]
