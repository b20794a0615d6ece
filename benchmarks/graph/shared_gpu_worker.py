"""One stage in a process of its own, told what to do line by line: `python -m benchmarks.graph.shared_gpu_worker STAGE DEVICE`.

Lines in and out are JSON; those out begin with `@` so that nothing a library prints is taken for an answer.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from benchmarks.graph.shared_gpu_stages import FRACTIONS, Work, stage_work
from kernels.errors import first_line


def run_for(work: Work, seconds: float, start: float, device: str) -> dict[str, Any]:
    """Call one after the other from `start` (epoch seconds) on; every call is waited for."""
    time.sleep(max(0.0, start - time.time()))
    taken: list[float] = []
    end = time.perf_counter() + seconds
    with torch.inference_mode():
        while (began := time.perf_counter()) < end:
            work()
            if device != "cpu":
                torch.cuda.synchronize()
            taken.append(1e3 * (time.perf_counter() - began))
    return {"ms": taken, "seconds": seconds}


def allocate_beyond(fraction: float) -> dict[str, Any]:
    """Ask for 1 GiB more than the whole cap, then for 64 MiB."""
    total = torch.cuda.get_device_properties(0).total_memory
    refused = ""
    try:
        torch.empty(int(total * fraction) + 2**30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        refused = first_line(error, 300)
    after = torch.ones(2**24, device="cuda").sum().item()
    return {"refused": bool(refused), "message": refused, "works_after": after == 2**24}


def main(arguments: list[str]) -> int:
    """Serve commands until `quit` or the end of the input."""
    stage, device = arguments[:2]
    small = "--small" in arguments
    torch.set_num_threads(1)
    began = time.perf_counter()
    if device != "cpu":
        torch.cuda.set_per_process_memory_fraction(FRACTIONS[stage])
    work = stage_work(stage, device, small=small)
    held = torch.cuda.memory_reserved() if device != "cpu" else 0
    _say({"ready": stage, "start_s": time.perf_counter() - began, "reserved_bytes": held})
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "quit":
            break
        if command["do"] == "cap":
            _say(allocate_beyond(FRACTIONS[stage]))
        else:
            _say(run_for(work, command["seconds"], command["start"], device))
    return 0


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write("@" + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
