"""What it costs to hand 8 face crops from one process's GPU memory to another's, by three ways.

* `plasma_like`: as an object store does it: pageable copy to the host, into shared memory, and from there to the GPU.
* `pinned`: shared memory that both processes have registered with CUDA: one DMA out, one in.
* `cuda_ipc`: a buffer of one process opened in the other once; a copy into it, a copy out of it, on the device.

A hop is timed in the sender: from crops on its GPU to the receiver's word that they lie in its own memory.
"""

from __future__ import annotations

import mmap
import multiprocessing.connection
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from benchmarks.graph.shared_gpu_stages import crops

WAYS: Final = ("plasma_like", "pinned", "cuda_ipc")
DTYPES: Final = {"uint8": torch.uint8, "fp16": torch.float16}
ANSWER_S: Final = 30.0


def measure(device: str, samples: int) -> dict[str, Any]:
    """Milliseconds per hop, `{"uint8": {"plasma_like": [...], ...}, ...}`; a way that fails has its reason in place of numbers."""
    found: dict[str, Any] = {}
    context: Any = torch.multiprocessing.get_context("spawn")
    for label, dtype in DTYPES.items():
        found[label] = {}
        for way in WAYS if device != "cpu" else WAYS[:1]:
            ours, theirs = context.Pipe()
            with tempfile.NamedTemporaryFile(dir=_shared_folder()) as file:
                source = crops(device, dtype)
                file.truncate(source.nbytes)
                receiver = context.Process(target=_receive, args=(theirs, way, file.name, label, device), daemon=True)
                receiver.start()
                try:
                    found[label][way] = _send(ours, way, file.name, source, samples)
                except (RuntimeError, OSError, EOFError, TimeoutError) as error:
                    found[label][way] = f"{type(error).__name__}: {error}"[:300]
                finally:
                    ours.close()
                    receiver.join(timeout=5)
                    if receiver.is_alive():
                        receiver.terminate()
            said = found[label][way]
            print(
                f"hand-over {label} {way}: {said if isinstance(said, str) else f'{np.median(said):.3f} ms'}", flush=True
            )
    return found


def _send(pipe: Any, way: str, name: str, source: Tensor, samples: int) -> list[float]:
    host = _mapped(name, source)
    with _registered(host, way == "pinned"):
        return _rounds(pipe, way, host, source, samples)


def _rounds(pipe: Any, way: str, host: Tensor, source: Tensor, samples: int) -> list[float]:
    opened = torch.empty_like(source) if way == "cuda_ipc" else None
    if opened is not None:
        pipe.send(opened)
    _answer(pipe)  # the receiver is ready
    taken = []
    for sample in range(samples + 5):
        _synchronise(source)
        began = time.perf_counter()
        if opened is not None:
            opened.copy_(source)
        elif way == "pinned":
            host.copy_(source, non_blocking=True)
        else:
            host.copy_(source.cpu())
        _synchronise(source)
        pipe.send(sample)
        _answer(pipe)
        if sample >= 5:
            taken.append(1e3 * (time.perf_counter() - began))
    pipe.send(None)
    return taken


def _receive(pipe: Any, way: str, name: str, label: str, device: str) -> None:
    target = torch.empty_like(crops(device, DTYPES[label]))
    host = _mapped(name, target)
    with _registered(host, way == "pinned"):
        origin = pipe.recv() if way == "cuda_ipc" else host
        pipe.send("ready")
        while pipe.recv() is not None:
            target.copy_(origin, non_blocking=way != "plasma_like")
            _synchronise(target)
            pipe.send("here")


def _answer(pipe: multiprocessing.connection.Connection) -> None:
    if not pipe.poll(ANSWER_S):
        raise TimeoutError("the receiver does not answer")
    pipe.recv()


def _mapped(name: str, like: Tensor) -> Tensor:
    """A CPU tensor over a file of shared memory."""
    with Path(name).open("r+b") as file:
        memory = mmap.mmap(file.fileno(), like.nbytes)
    array = np.frombuffer(memory, np.uint8)
    return torch.from_numpy(array).view(like.dtype).reshape(like.shape)


@contextmanager
def _registered(host: Tensor, wanted: bool) -> Iterator[None]:
    """Memory that the GPU reads and writes by itself; given back, because the next mapping may get the same address."""
    runtime = torch.cuda.cudart() if wanted else None  # type: ignore[no-untyped-call]  # torch's own
    if runtime is not None and int(status := runtime.cudaHostRegister(host.data_ptr(), host.nbytes, 0)) != 0:
        raise RuntimeError(f"cudaHostRegister: {status}")
    try:
        yield
    finally:
        if runtime is not None:
            runtime.cudaHostUnregister(host.data_ptr())


def _synchronise(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def _shared_folder() -> str | None:
    folder = Path("/dev/shm")  # noqa: S108 - this is the machine's shared memory
    return str(folder) if folder.is_dir() else None
