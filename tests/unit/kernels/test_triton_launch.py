"""Kernels are launched, or only compiled, and in that case all at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kernels.triton_launch import compiling_in_parallel, launch
from tests.support.triton import HAS_TRITON


class FakeKernel:
    """Remembers how it was used."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.compiled: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *args, **options: self.launched.append((grid, args, options))

    def warmup(self, *args: Any, grid: tuple[int, ...], **options: Any) -> None:
        self.compiled.append((grid, args, options))


def test_a_kernel_is_launched_with_its_arguments() -> None:
    kernel = FakeKernel()
    launch(kernel, (2, 3), 1, 2, BLOCK=64, num_warps=4)
    assert kernel.launched == [((2, 3), (1, 2), {"BLOCK": 64, "num_warps": 4})] and not kernel.compiled


@pytest.mark.skipif(not HAS_TRITON, reason="no triton")
def test_inside_the_context_it_is_compiled_only_and_afterwards_launched_again() -> None:
    kernel = FakeKernel()
    with compiling_in_parallel(2):
        launch(kernel, (2,), 1, BLOCK=64)
    assert kernel.compiled == [((2,), (1,), {"BLOCK": 64})] and not kernel.launched
    launch(kernel, (2,), 1, BLOCK=64)
    assert len(kernel.launched) == 1 and len(kernel.compiled) == 1


@pytest.mark.skipif(not HAS_TRITON, reason="no triton")
def test_a_failure_inside_ends_the_mode() -> None:
    kernel = FakeKernel()
    with pytest.raises(ValueError, match="broken"), compiling_in_parallel(1):
        raise ValueError("broken")
    launch(kernel, (1,))
    assert len(kernel.launched) == 1


@pytest.mark.skipif(not HAS_TRITON, reason="no triton")
def test_other_threads_go_on_launching() -> None:
    kernel = FakeKernel()
    with compiling_in_parallel(1):
        thread = threading.Thread(target=launch, args=(kernel, (1,)))
        thread.start()
        thread.join()
    assert len(kernel.launched) == 1 and not kernel.compiled
