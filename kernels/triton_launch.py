"""Launching Triton kernels, and compiling all that a network uses at once instead of one after the other at its first run."""
# mypy: allow-untyped-calls

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_only_compile: ContextVar[bool] = ContextVar("only_compile", default=False)


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    """Queue a kernel on the current stream; inside `compiling_in_parallel` only have it compiled.

    Args:
        kernel: A `triton.jit` function.
        grid: Programs along up to three axes.
        args: The kernel's arguments.
        options: The kernel's `constexpr` arguments and Triton's (`num_warps`, `num_stages`).
    """
    if _only_compile.get():
        kernel.warmup(*args, grid=grid, **options)
    else:
        kernel[grid](*args, **options)


@contextmanager
def compiling_in_parallel(threads: int | None = None) -> Iterator[None]:
    """Kernels launched inside are compiled by a pool of threads, all done when the context ends; none runs, so results are garbage.

    Triton releases the interpreter's lock while it compiles. Without this a network's first run compiles its kernels one by one.

    Args:
        threads: Compilations at a time; None takes the cores of the machine, 16 at most.
    """
    from triton import AsyncCompileMode

    pool = ThreadPoolExecutor(threads or min(16, os.cpu_count() or 1), thread_name_prefix="triton-compile")
    token = _only_compile.set(True)
    try:
        with pool, AsyncCompileMode(pool):
            yield
    finally:
        _only_compile.reset(token)
