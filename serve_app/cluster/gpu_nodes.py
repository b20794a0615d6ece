"""One Ray node per GPU on this machine: a set of stages then lies on one GPU, whatever dies and comes back.

Ray knows GPU shares, not which shares belong together: on a node with several GPUs it may put two renderers on one of them. A node
with a single GPU and `max_replicas_per_node: 1` leaves it no choice. The first GPU is the head's; every other one gets a node of
its own, as `CUDA_VISIBLE_DEVICES=1 ray start --address=... --num-gpus=1` would start it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Final

from kernels.errors import InvalidInputError
from serve_app.cluster.errors import ServiceFailedError

OBJECT_STORE_BYTES: Final = 512 * 2**20
"""Size of every node's object store; what lies there is pictures on their way and uploads."""
JOIN_S: Final = 60.0
END_S: Final = 10.0
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def choose_gpus(wanted: str, found: Sequence[str]) -> list[str]:
    """GPUs that the cluster shall use.

    Args:
        wanted: `all`, a list of indices such as `0,2` (a single index needs a comma: `1,`), or how many.
        found: Names of the GPUs that are there, as `CUDA_VISIBLE_DEVICES` spells them; an index counts within it.

    Raises:
        InvalidInputError: The text is none of these, or names a GPU that is not there.
    """
    allowed = (
        f"all, a number up to {len(found)}, or indices such as 0,1" if found else "nothing: torch finds no GPU here"
    )
    error = InvalidInputError("--gpus", wanted, allowed)
    if wanted == "all" and found:
        return list(found)
    parts = [part.strip() for part in wanted.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise error
    if "," not in wanted:
        count = int(parts[0])
        if not 1 <= count <= len(found):
            raise error
        return list(found[:count])
    indices = [int(part) for part in parts]
    if len(set(indices)) < len(indices) or max(indices) >= len(found):
        raise error
    return [found[index] for index in indices]


def visible_gpus(environment: dict[str, str] | None = None, count: Callable[[], int] | None = None) -> list[str]:
    """Names of the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` spells them.

    Args:
        environment: Variables; those of this process where None.
        count: Number of GPUs that torch finds; asks torch where None.
    """
    listed = (os.environ if environment is None else environment).get(_VISIBLE)
    if count is None:
        import torch

        count = torch.cuda.device_count
    there = count()
    if listed is None:
        return [str(index) for index in range(there)]
    return [part.strip() for part in listed.split(",") if part.strip()][:there]


@contextmanager
def only_gpu(name: str) -> Iterator[None]:
    """Processes that are started inside the block see this GPU alone."""
    before = os.environ.get(_VISIBLE)
    os.environ[_VISIBLE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VISIBLE]
        else:
            os.environ[_VISIBLE] = before


@contextmanager
def further_nodes(address: str, gpus: Sequence[str], cpus: int, living: Callable[[], int]) -> Iterator[None]:
    """Nodes with one GPU each that join the cluster at `address`; they end with the block.

    Args:
        address: Address of the head, `host:port`.
        gpus: One name per node.
        cpus: Logical CPUs of each node.
        living: Counts the cluster's living nodes.

    Raises:
        ServiceFailedError: A node ended, or did not join in time; it carries what Ray said.
    """
    with ExitStack() as stack:
        before = living()
        nodes = [stack.enter_context(_node(address, name, cpus)) for name in gpus]
        _wait_for_nodes(nodes, lambda: living() >= before + len(gpus))
        yield


class _Node:
    """A process that keeps one node's processes."""

    def __init__(self, gpu: str, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        self.gpu = gpu
        self.process = process
        self._said = said

    def last_words(self) -> str:
        """The last line that Ray printed."""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


@contextmanager
def _node(address: str, gpu: str, cpus: int) -> Iterator[_Node]:
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--address={address}", "--num-gpus=1"]
    command += [f"--num-cpus={cpus}", f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats", "--block"]
    with tempfile.TemporaryFile() as said, only_gpu(gpu):
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)  # noqa: S603  # our own arguments
        try:
            yield _Node(gpu, process, said)
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_nodes(
    nodes: Sequence[_Node], joined: Callable[[], bool], clock: Callable[[], float] = time.monotonic
) -> None:
    deadline, pause = clock() + JOIN_S, threading.Event()
    while not joined():
        for node in nodes:
            if node.process.poll() is not None:
                raise ServiceFailedError(f"the Ray node of GPU {node.gpu} ended at its start ({node.last_words()})")
        if clock() > deadline:
            raise ServiceFailedError(f"the Ray nodes of the GPUs did not join within {JOIN_S:.0f} s")
        pause.wait(0.2)


def living_nodes() -> int:
    """Living nodes of the cluster that this process is connected to."""
    import ray

    nodes: Any = ray.nodes  # Ray's own, without types
    return sum(bool(one.get("Alive")) for one in nodes())
