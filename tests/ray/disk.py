"""What replicas and the raylet of a cluster write to disk: by the kernel's count, less what their logs grew by."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PAGE = 4096
RAYLET = b"/raylet/raylet"
WRITE_BACK_S = 5.0
"""Linux writes dirty pages back so often; of a log that grows, its last page and its inode are then counted anew."""
METADATA = 16 * PAGE
"""When a file was last read is counted, too, for instance of a module that is imported late; one picture is far more."""
RAYLET_BYTES_S = 16 * 1024
"""What the raylet, which is no process of the session, may write of its own in a second (its state, its metrics; 4 KiB in 20 s were
seen). Spilled objects would stand out: one picture of 360 x 640 pixels is 345,600 bytes, and a session shows 25 a second."""


@dataclass(frozen=True)
class Written:
    """Counts of one moment.

    Attributes:
        at: Monotonic seconds.
        counts: Process id -> bytes that it caused to be written to a disk (`write_bytes` of `/proc/PID/io`); memory file systems,
            where Ray keeps its objects, are not counted by the kernel.
        logs: Process id -> log file that it holds open -> size.
        raylets: Those of the processes that are Ray's own.
    """

    at: float
    counts: dict[int, int]
    logs: dict[int, dict[str, int]]
    raylets: frozenset[int] = frozenset()

    def beside_logs(self, later: Written) -> dict[int, int]:
        """Per process of both, bytes written until `later` less what logs, metadata and Ray itself may have taken; above 0."""
        found = {}
        reserve = round(2 + (later.at - self.at) / WRITE_BACK_S) * 2 * PAGE
        for pid in self.counts.keys() & later.counts.keys():
            grown = [size - self.logs.get(pid, {}).get(name, 0) for name, size in later.logs[pid].items()]
            allowed = METADATA + sum(-(-size // PAGE) * PAGE + reserve for size in grown if size > 0)
            if pid in self.raylets:
                allowed += round(RAYLET_BYTES_S * (later.at - self.at))
            if (extra := later.counts[pid] - self.counts[pid] - allowed) > 0:
                found[pid] = extra
        return found


def written(home: Path) -> Written:
    """Of every replica and the raylet of the cluster whose data folder is `home`."""
    counts: dict[int, int] = {}
    logs: dict[int, dict[str, int]] = {}
    raylets = set()
    for folder in processes(home):
        with suppress(OSError):  # it ended meanwhile
            files = {target: Path(target).stat().st_size for target, _ in _files(folder) if "/logs/" in target}
            counts[int(folder.name)], logs[int(folder.name)] = counted(folder), files
            if RAYLET in (folder / "cmdline").read_bytes():
                raylets.add(int(folder.name))
    return Written(time.monotonic(), counts, logs, frozenset(raylets))


def counted(folder: Path) -> int:
    """`write_bytes` of a process, given as its folder in `/proc`."""
    lines = (folder / "io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def open_for_writing(home: Path) -> set[str]:
    """Regular files that these processes hold open for writing, logs and shared memory left out."""
    found: set[str] = set()
    for folder in processes(home):
        with suppress(OSError):
            found |= {target for target, flags in _files(folder) if flags & (os.O_WRONLY | os.O_RDWR)}
    return {target for target in found if not _allowed(target)}


def processes(home: Path) -> Iterator[Path]:
    """Folders in `/proc`; others have files of their own: Ray's dashboard, workers that served another application."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            program = (folder / "cmdline").read_bytes()
            if not (program.startswith(b"ray::ServeReplica:liveanchor") or RAYLET in program):
                continue
            if str(home) in (folder / "environ").read_bytes().decode(errors="replace"):
                yield folder


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Regular files that a process holds open, and how."""
    for link in (folder / "fd").iterdir():
        with suppress(OSError):
            target = os.readlink(link)
            flags = int((folder / "fdinfo" / link.name).read_text().split("flags:")[1].split()[0], 8)
            if target.startswith("/") and Path(target).is_file():
                yield target, flags


def _allowed(target: str) -> bool:
    return "/logs/" in target or target.startswith(("/dev/", "/memfd:")) or target.endswith((".lock", " (deleted)"))
