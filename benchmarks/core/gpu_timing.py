"""Device time per launch by graph replay: the one method for both sides of every GPU comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Launch = Callable[[], object]


def replayed_ms(launches: Sequence[Launch], *, repeats: int = 1, samples: int = 40) -> list[float]:
    """Milliseconds of device time per launch.

    The launches are captured one after the other, `repeats` times over, into one CUDA graph, which is replayed between two events.
    Launches over different buffers, together larger than the L2 cache, measure memory; one launch repeated measures the cache.

    Args:
        launches: Each queues the same work, on its own buffers.
        repeats: How often the whole sequence is captured; so many that a replay takes a good part of a millisecond.
        samples: Replays that are timed, one number each, after four that are not.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own, without types
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for launch in launches:
            launch()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            for launch in launches:
                launch()
    return between_events_ms(graph.replay, count=1, per=repeats * len(launches), samples=samples)


def between_events_ms(work: Launch, *, count: int, per: int = 1, samples: int = 40) -> list[float]:
    """Milliseconds between two CUDA events around `count` calls of `work`, over `count * per`.

    Args:
        work: Called between the events; where the host queues more slowly than the device works, the time is the host's.
        count: Calls between the events.
        per: Launches in one call.
        samples: Numbers returned, after four that are not.
    """
    times = []
    for sample in range(samples + 4):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]  # torch's own, without types
        torch.cuda.synchronize()
        begin.record()
        for _ in range(count):
            work()
        end.record()
        torch.cuda.synchronize()
        if sample >= 4:
            times.append(float(begin.elapsed_time(end)) / (count * per))
    return times


def copy_bytes_per_s(size: int = 2**32) -> dict[str, float]:
    """Bytes read plus bytes written per second of device-to-device copies of `size` bytes of random data, by three ways of copying.

    Returns:
        `memcpy` (the driver's copy on a stream), `graph_memcpy` (the same as a graph node, which may run on a copy engine) and
        `kernel` (an element-wise kernel that negates while it copies). The highest is the ceiling that shares refer to.
    """
    source = torch.randint(-(2**31), 2**31 - 1, (size // 4,), dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    ways = {
        "memcpy": between_events_ms(lambda: target.copy_(source), count=2, samples=9),
        "graph_memcpy": replayed_ms([lambda: target.copy_(source)], samples=9),
        "kernel": replayed_ms([lambda: torch.bitwise_not(source, out=target)], samples=9),
    }
    return {name: 2.0 * size / (sorted(times)[len(times) // 2] * 1e-3) for name, times in ways.items()}
