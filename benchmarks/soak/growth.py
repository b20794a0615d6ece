"""What samples of a long run say about growth: a slope that a few restarts do not bend, and a table by the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.errors import InvalidInputError

WARM_SHARE: Final = 0.25
"""Share of a run in which caches fill and replicas start; it is left out."""
MOST_PAIRS: Final = 400
"""Samples that a slope looks at; longer runs are thinned, since pairs grow with the square."""


@dataclass(frozen=True)
class Sample:
    """Everything of the service at one moment.

    Attributes:
        at_s: Seconds since the run began.
        memory_mib: Proportional set size of all processes together.
        threads: Threads of all processes.
        descriptors: Open files and sockets of all processes.
        disk_mib: Size of the data folder.
        processes: How many there are.
    """

    at_s: float
    memory_mib: float
    threads: int
    descriptors: int
    disk_mib: float
    processes: int


Pick = Callable[[Sample], float]


def warm(samples: Sequence[Sample]) -> list[Sample]:
    """The samples after the first `WARM_SHARE` of the time.

    Raises:
        InvalidInputError: Fewer than four are left.
    """
    end = samples[-1].at_s if samples else 0.0
    found = [one for one in samples if one.at_s >= WARM_SHARE * end]
    if len(found) < 4:
        raise InvalidInputError("samples", str(len(samples)), "a run of which at least four samples are warm")
    return found


def per_hour(samples: Sequence[Sample], pick: Pick) -> float:
    """Theil-Sen slope of the warm samples (the median over all pairs), per hour; a process that was killed is an outlier.

    Args:
        samples: In order of time.
        pick: Which number.
    """
    found = warm(samples)
    kept = found[:: max(1, len(found) // MOST_PAIRS)]
    at, value = np.array([one.at_s for one in kept]), np.array([pick(one) for one in kept], np.float64)
    later, earlier = np.triu_indices(len(kept), 1)[::-1]
    return float(np.median((value[later] - value[earlier]) / (at[later] - at[earlier])) * 3600)


def growth(samples: Sequence[Sample], pick: Pick) -> float:
    """Median of the last third of the warm samples less that of the first third."""
    found = [pick(one) for one in warm(samples)]
    third = max(1, len(found) // 3)
    return float(np.median(found[-third:]) - np.median(found[:third]))


def table(samples: Sequence[Sample], window_s: float = 600.0) -> str:
    """One line for each window: medians."""
    lines = ["    from s  memory MiB  threads  descriptors  disk MiB  processes"]
    for start in np.arange(0.0, samples[-1].at_s + 1e-9, window_s):
        inside = [one for one in samples if start <= one.at_s < start + window_s]
        if not inside:
            continue
        rows = np.median(
            [(one.memory_mib, one.threads, one.descriptors, one.disk_mib, one.processes) for one in inside], axis=0
        )
        lines.append("{:10.0f}{:12.0f}{:9.0f}{:13.0f}{:10.1f}{:11.0f}".format(start, *rows))
    return "\n".join(lines)
