"""Batch buckets: padding, mini-batches, ownership of outputs; on a GPU also that replays are the function."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from engines.runtimes.cuda_graphs import BucketedGraph
from kernels.errors import InvalidInputError, ShapeError

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def example(size: int) -> tuple[Tensor, ...]:
    return torch.ones(size, 3), torch.ones(size, 3)


def graph(device: str, seen: list[int] | None = None, buckets: tuple[int, ...] = (1, 2, 4)) -> BucketedGraph:
    def function(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        if seen is not None:
            seen.append(len(a))
        return a * 2 + b, (a - b).sum(dim=1)

    return BucketedGraph(function, example, buckets, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 11])
def test_any_number_of_items_gives_the_functions_results(device: str, count: int) -> None:
    a, b = torch.randn(count, 3), torch.randn(count, 3)
    run = graph(device)
    for _ in range(2):
        both, difference = run(a, b)
        assert both.device.type == device
        torch.testing.assert_close(both.cpu(), a * 2 + b)
        torch.testing.assert_close(difference.cpu(), (a - b).sum(dim=1))


def test_the_smallest_bucket_that_fits_is_used_and_the_rest_are_mini_batches() -> None:
    seen: list[int] = []
    run = graph("cpu", seen)
    run(torch.randn(3, 3), torch.randn(3, 3))
    run(torch.randn(9, 3), torch.randn(9, 3))
    assert seen == [4, 4, 4, 1]
    assert run.captured == (1, 4)


@pytest.mark.parametrize("device", DEVICES)
def test_one_item_serves_all(device: str) -> None:
    a, b = torch.randn(1, 3), torch.randn(6, 3)
    both, _ = graph(device)(a, b)
    torch.testing.assert_close(both.cpu(), a * 2 + b)


@pytest.mark.parametrize("device", DEVICES)
def test_outputs_are_the_callers(device: str) -> None:
    run = BucketedGraph(lambda a: a * 2, lambda n: (torch.ones(n, 3),), (2,), device)
    first = run(torch.full((2, 3), 5.0))
    run(torch.full((2, 3), 7.0))
    assert isinstance(first, Tensor) and first.cpu().eq(10.0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_a_function_that_returns_its_input_does_not_lend_the_static_buffer(device: str) -> None:
    run = BucketedGraph(lambda a: a, lambda n: (torch.ones(n, 3),), (2,), device)
    first = run(torch.zeros(2, 3))
    run(torch.ones(2, 3))
    assert isinstance(first, Tensor) and first.cpu().eq(0.0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_threads_take_turns(device: str) -> None:
    run = graph(device)
    run.prepare()
    wrong: list[int] = []

    def caller(value: int) -> None:
        for _ in range(50):
            stream = torch.cuda.Stream() if device == "cuda" else None
            with torch.cuda.stream(stream):
                both, _ = run(torch.full((3, 3), float(value)), torch.zeros(3, 3))
                if not both.cpu().eq(2.0 * value).all():
                    wrong.append(value)

    threads = [threading.Thread(target=caller, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("device", DEVICES)
def test_prepare_makes_every_bucket_once(device: str) -> None:
    seen: list[int] = []
    run = graph(device, seen)
    assert run.captured == ()
    run.prepare()
    assert run.captured == run.buckets == (1, 2, 4)
    traced = len(seen)
    run(torch.randn(2, 3), torch.randn(2, 3))
    assert len(seen) == traced + (device == "cpu")  # a replay does not call the function again


@pytest.mark.parametrize("device", DEVICES)
def test_other_types_are_converted(device: str) -> None:
    both, _ = graph(device)(torch.full((2, 3), 3, dtype=torch.int32), torch.ones(2, 3, dtype=torch.float16))
    assert both.dtype == torch.float32 and both.cpu().eq(7.0).all()


@pytest.mark.parametrize("buckets", [(), (0, 1), (2, 1), (2, 2)])
def test_buckets_are_checked(buckets: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="buckets"):
        graph("cpu", buckets=buckets)


@pytest.mark.parametrize(
    "shapes",
    [[], [(2, 3)], [(2, 3), (3, 3)], [(2, 4), (2, 3)], [(0, 3), (0, 3)], [(), (2, 3)], [(2, 3), (2, 3), (2, 3)]],
)
def test_inputs_that_do_not_fit_are_refused_and_change_nothing(shapes: list[tuple[int, ...]]) -> None:
    run = graph("cpu")
    with pytest.raises(ShapeError):
        run(*(torch.zeros(shape) for shape in shapes))
    both, _ = run(torch.ones(2, 3), torch.ones(2, 3))
    assert both.eq(3.0).all()


def test_an_example_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ShapeError, match="example"):
        BucketedGraph(lambda a: a, lambda n: (torch.ones(n + 1, 3),))(torch.ones(1, 3))
