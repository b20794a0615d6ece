"""Which machine, versions, commit and day a number belongs to; needs torch alone, not the schema's library."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import torch

from training.source_commit import source_commit

RESULTS_DIR = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True)
class RunInfo:
    """The part of a record that is the same for every case of a run."""

    device: str
    cpu: str
    torch: str
    commit: str
    date: date
    command: str


def describe_run(
    command: str,
    *,
    device: str = "cpu",
    commit: str | None = None,
    today: Callable[[], date] = lambda: datetime.now(UTC).date(),
) -> RunInfo:
    """Fill in machine, versions, commit and date.

    Args:
        command: Shell command that re-makes the rows, from the repository root.
        device: "cpu", or a torch device such as "cuda:0", whose card name is looked up.
        commit: What is measured, where the tree came without its history; None asks git.
        today: Clock.
    """
    name = "cpu" if device == "cpu" else torch.cuda.get_device_name(device)
    return RunInfo(
        device=name,
        cpu=_cpu_name(),
        torch=torch.__version__,
        commit=commit or source_commit(),
        date=today(),
        command=command,
    )


def _cpu_name() -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        match = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
        model = match.group(1).strip() if match else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores"
