"""Samples memory, threads, descriptors and disk of a cluster that this process started."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.core.process_memory import PROC, descendants, pss_bytes
from benchmarks.soak.growth import Sample

MIB: Final = 2**20


class Watch:
    """Samples while a block runs.

    Args:
        folder: The data folder.
        clock: Monotonic seconds.
        every_s: Seconds between two samples.

    Attributes:
        samples: In order.
    """

    def __init__(self, folder: Path, clock: Callable[[], float], every_s: float) -> None:
        self._folder, self._clock, self._every_s = folder, clock, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak-watch", daemon=True)
        self._began = clock()
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        self._began = self._clock()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self.samples.append(sample(self._clock() - self._began, self._folder))
            if self._stop.wait(self._every_s):
                return


def sample(at_s: float, folder: Path) -> Sample:
    """Look at every process of Ray below this one, and at a folder."""
    pids = [pid for pid in descendants(os.getpid()) if is_of_ray(_text(PROC / str(pid) / "cmdline"))]
    return Sample(
        at_s=at_s,
        memory_mib=sum(map(pss_bytes, pids)) / MIB,
        threads=sum(_count(PROC / str(pid) / "task") for pid in pids),
        descriptors=sum(_count(PROC / str(pid) / "fd") for pid in pids),
        disk_mib=size_of(folder) / MIB,
        processes=len(pids),
    )


def is_of_ray(command: str) -> bool:
    """Whether a command line is that of one of Ray's processes, and not of a client that measures."""
    return command.startswith("ray::") or "/ray/" in command


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder; those that go meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue  # removed since it was listed
    return total


def _count(folder: Path) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0  # the process has ended


def _text(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""  # the process has ended
