"""Memory of a tree of processes as PSS: shared pages count once, split between the processes that share them (Linux)."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PROC: Final = Path("/proc")
SAMPLE_S: Final = 0.5


def descendants(root_pid: int, proc: Path = PROC) -> list[int]:
    """Every process below `root_pid`, itself left out."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # ended between listing and reading
            children[int(fields[1])].append(int(entry.name))
    found: list[int] = []
    waiting = list(children[root_pid])
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children[pid])
    return found


def pss_bytes(pid: int, proc: Path = PROC) -> int:
    """Proportional set size of one process; 0 when it has ended."""
    try:
        lines = (proc / str(pid) / "smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


class PeakMemory:
    """Samples the PSS of everything below a process while a block runs.

    Args:
        root_pid: The process whose descendants count.

    Attributes:
        peak_bytes: Largest sum seen.
    """

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self._sample()

    def _sample(self) -> None:
        self.peak_bytes = max(self.peak_bytes, sum(pss_bytes(pid) for pid in descendants(self._root_pid)))
