"""A loaded engine behind the project's runtime protocol.

Inputs and outputs are torch tensors bound by address, work goes to torch's current stream and returns at once, activations lie in a
block from torch's allocator (so that a process's memory cap covers them).

Each batch size has an execution context of its own, because a captured CUDA graph is good for the state that its context had; all
share the one block, so a call waits on the device for the call before it. After one run with a batch size, a call with it does
nothing that a CUDA graph cannot capture.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor

from engines.tensorrt.build import make_logger
from engines.tensorrt.errors import EngineRunError
from engines.tensorrt.library import Library
from engines.tensorrt.spec import EngineSpec
from kernels.errors import ShapeError

_DTYPES: Final = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "BOOL": torch.bool,
    "UINT8": torch.uint8,
    "INT8": torch.int8,
}


class TensorRtRuntime:
    """Runs one engine.

    Calls take turns; the tensors of a call belong to the caller.

    Args:
        spec: What goes in and out.
        plan: Serialized engine.
        library: What built it.
        device: A CUDA device.

    Raises:
        EngineRunError: The plan does not load here, or is not the spec's.
    """

    def __init__(self, spec: EngineSpec, plan: bytes, library: Library, device: torch.device | str = "cuda") -> None:
        self._spec = spec
        self._device = torch.device(device)
        self._lock = threading.Lock()
        self._log = make_logger(library)
        api = library.api
        try:
            with self._chosen():
                self._runtime = api.Runtime(self._log)
                self._engine = self._runtime.deserialize_cuda_engine(plan)
                if self._engine is None:
                    raise EngineRunError(spec.name, f"{library.flavour} cannot load it here: {self._log.summary()}")
                self._config = self._runtime_config(api)
                size = max(int(self._engine.device_memory_size_v2), 1)
                self._scratch = torch.empty(size, dtype=torch.uint8, device=self._device)
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise EngineRunError(spec.name, f"{library.flavour} cannot load it here: {str(error)[:300]}") from error
        self._types = self._read_types()
        self._contexts: dict[int, Any] = {}
        self._last: torch.cuda.Event | None = None

    @property
    def name(self) -> str:
        """`tensorrt`."""
        return "tensorrt"

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._device

    @property
    def spec(self) -> EngineSpec:
        """What goes in and out."""
        return self._spec

    def run(self, *inputs: Tensor) -> Tensor:
        """Run an engine with one output.

        Raises:
            ShapeError: Inputs that do not fit, or an engine with several outputs (`run_all`).
            EngineRunError: TensorRT refuses.
        """
        outputs = self.run_all(*inputs)
        if len(outputs) != 1:
            raise ShapeError("outputs", str(len(outputs)), "one; run_all gives all of them")
        return outputs[0]

    def run_all(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run; inputs may lie on any device and have any float type, outputs are new tensors on `device`, in the spec's order.

        Raises:
            ShapeError: Inputs that do not fit the spec, or a batch beyond its largest.
            EngineRunError: TensorRT refuses.
        """
        batch = check_inputs(self._spec, inputs)
        with self._lock, torch.inference_mode(), self._chosen():
            context = self._contexts.get(batch) or self._new_context(batch)
            held = [
                self._bind(context, port.name, value) for port, value in zip(self._spec.inputs, inputs, strict=True)
            ]
            outputs = tuple(self._bind_output(context, name) for name in self._spec.outputs)
            self._execute(context, batch)
            del held  # the stream's allocator keeps the memory until its work is done
        return outputs

    def _execute(self, context: Any, batch: int) -> None:
        if self._device.type != "cuda":
            launched = context.execute_async_v3(0)
        else:
            stream = torch.cuda.current_stream(self._device)
            captured = torch.cuda.is_current_stream_capturing()
            if self._last is not None and not captured:  # the caller that captures orders the replays
                stream.wait_event(self._last)
            launched = context.execute_async_v3(stream.cuda_stream)
            self._last = None if captured else stream.record_event()
        if not launched:
            raise EngineRunError(self._spec.name, f"batch {batch}: {self._log.summary()}")

    def _new_context(self, batch: int) -> Any:
        """A context for one batch size: its shapes never change again."""
        context = self._engine.create_execution_context(self._config)
        if context is None:
            raise EngineRunError(self._spec.name, f"no execution context: {self._log.summary()}")
        context.set_device_memory(self._scratch.data_ptr(), self._scratch.numel())
        if (index := self._spec.range_of(batch)) > 0:
            stream = torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0
            if not context.set_optimization_profile_async(index, stream):
                raise EngineRunError(self._spec.name, f"range {index} of batches: {self._log.summary()}")
        for port in self._spec.inputs:
            if not context.set_input_shape(port.name, port.sized(batch)):
                raise EngineRunError(self._spec.name, f"input {port.name} {port.sized(batch)}: {self._log.summary()}")
        self._contexts[batch] = context
        return context

    def _runtime_config(self, api: Any) -> Any:
        """Activations in our memory; where kernels are compiled per shape, before the first run and not during it."""
        config = self._engine.create_runtime_config()
        config.set_execution_context_allocation_strategy(api.ExecutionContextAllocationStrategy.USER_MANAGED)
        if (strategies := getattr(api, "DynamicShapesKernelSpecializationStrategy", None)) is not None:
            config.dynamic_shapes_kernel_specialization_strategy = strategies.EAGER
        return config

    def _chosen(self) -> AbstractContextManager[object]:
        """The device made current; on the CPU (a library's stand-in in tests) nothing."""
        return torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()

    def _bind(self, context: Any, name: str, value: Tensor) -> Tensor:
        ready = value.to(self._device, self._types[name], non_blocking=True).contiguous()
        self._set_address(context, name, ready)
        return ready

    def _bind_output(self, context: Any, name: str) -> Tensor:
        shape = tuple(context.get_tensor_shape(name))
        if any(extent < 0 for extent in shape):
            raise EngineRunError(self._spec.name, f"output {name} has an open shape {shape}")
        output = torch.empty(shape, dtype=self._types[name], device=self._device)
        self._set_address(context, name, output)
        return output

    def _set_address(self, context: Any, name: str, tensor: Tensor) -> None:
        if not context.set_tensor_address(name, tensor.data_ptr()):
            raise EngineRunError(self._spec.name, f"no address for {name}: {self._log.summary()}")

    def _read_types(self) -> dict[str, torch.dtype]:
        names = {self._engine.get_tensor_name(index) for index in range(self._engine.num_io_tensors)}
        wanted = [*(port.name for port in self._spec.inputs), *self._spec.outputs]
        if names != set(wanted):
            raise EngineRunError(self._spec.name, f"it has the tensors {sorted(names)}, needed {sorted(wanted)}")
        return {name: _torch_type(self._spec.name, self._engine.get_tensor_dtype(name)) for name in wanted}


def check_inputs(spec: EngineSpec, inputs: tuple[Tensor, ...]) -> int:
    """Check a call's inputs.

    Returns:
        The batch.

    Raises:
        ShapeError: Number, rank, extent or batch that does not fit.
    """
    if len(inputs) != len(spec.inputs):
        raise ShapeError("inputs", str(len(inputs)), ", ".join(port.name for port in spec.inputs))
    batch = 0
    for port, value in zip(spec.inputs, inputs, strict=True):
        axis = spec.batch_axis_of[port.name]
        if value.dim() != len(port.shape):
            raise ShapeError(port.name, str(tuple(value.shape)), str(port.shape))
        batch = batch or value.shape[axis]
        if tuple(value.shape) != port.sized(batch) or not 1 <= batch <= spec.max_batch:
            allowed = f"{port.shape} with one batch of 1 to {spec.max_batch} in place of -1"
            raise ShapeError(port.name, str(tuple(value.shape)), allowed)
    return batch


def _torch_type(engine: str, dtype: Any) -> torch.dtype:
    name = str(getattr(dtype, "name", dtype)).rpartition(".")[2]
    if name not in _DTYPES:
        raise EngineRunError(engine, f"a tensor of type {name} cannot be bound")
    return _DTYPES[name]
