"""Getting a network over our own kernels ready: compiled on all cores at once, then one CUDA graph per batch size."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable

import structlog
import torch

from engines.runtimes.cuda_graphs import BucketedGraph
from kernels.errors import LiveAnchorError, first_line

_log = structlog.get_logger(__name__)


class KernelsNotCompiledError(LiveAnchorError):
    """The kernels cannot be compiled or launched here; the text has the compiler's first line."""

    code = "kernels_not_compiled"


def prepare_compiled(graph: BucketedGraph, run: Callable[[int], object], stage: str) -> None:
    """Compile and capture everything now, so that no request waits for it; on a CPU there is nothing to do.

    Args:
        graph: The graphs. cuDNN chooses its algorithms while they are captured.
        run: Calls what they capture with ordinary inputs of a batch size; without Triton it is not called.
        stage: Name for the log.

    Raises:
        KernelsNotCompiledError: This GPU or this machine's compiler does not take the kernels.
    """
    if graph.device.type != "cuda":
        return
    if importlib.util.find_spec("triton") is None:
        _capture(graph, None, stage)  # over plain torch operators
        return
    from triton.errors import TritonError

    try:
        _capture(graph, run, stage)
    except TritonError as error:
        raise KernelsNotCompiledError(first_line(error)) from error


def _capture(graph: BucketedGraph, run: Callable[[int], object] | None, stage: str) -> None:
    begin = time.monotonic()
    with torch.inference_mode(), torch.cuda.device(graph.device):
        if run is not None:
            from kernels.triton_launch import compiling_in_parallel

            with compiling_in_parallel():
                for size in graph.buckets:
                    run(size)
        compiled = time.monotonic()
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            graph.prepare()
    _log.info(
        f"{stage}_prepared",
        compile_s=round(compiled - begin, 2),
        capture_s=round(time.monotonic() - compiled, 2),
        buckets=graph.buckets,
    )
