"""The command that makes `results/cpu-2core/picture.json`: how talking pictures look, measured on decoded video.

`python -m benchmarks.picture --baseline OLD.json --baseline-name "commit 6129eb6"`, where OLD.json was written by the
same command over an earlier commit (`--out OLD.json`). Photographs come with `pip install scikit-image matplotlib`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from benchmarks.core.record import read_records, write_records
from benchmarks.core.run_info import RESULTS_DIR, describe_run
from benchmarks.quality.main_job_run import run_cases
from benchmarks.quality.picture_job import SUITE, Options, PictureJob
from engines.weights.home import face_weights_dir
from kernels.errors import InvalidInputError, LiveAnchorError

DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.picture", description=__doc__)
    parser.add_argument("--cases", default="", help="comma-separated case names; all when left out")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument("--baseline", type=Path, help="rows of an earlier commit, made by this command")
    parser.add_argument("--baseline-name", default="the same command, earlier commit", help="what they are")
    parser.add_argument("--quick", action="store_true", help="a rough look; needs --out, never published")
    parser.add_argument("--face-weights", type=Path, help="folder of the face models, when not pulled")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 done, 2 bad usage, 1 failure."""
    args = parse(arguments)
    try:
        if args.quick and args.out.resolve().is_relative_to(RESULTS_DIR.resolve()):
            raise InvalidInputError("out", "results/ with --quick", "a file elsewhere: quick numbers are not published")
        if args.baseline is not None and not args.baseline.is_file():
            raise InvalidInputError("baseline", str(args.baseline), "a results file of this command")
        before = {} if args.baseline is None else {row.case: row for row in read_records(args.baseline)}
        from benchmarks.quality.picture_cases import MEASURES

        options = Options(args.face_weights or face_weights_dir(), before, args.baseline_name, args.quick)
        job = PictureJob(options, describe_run("python -m benchmarks.picture"))
        cases = [name.strip() for name in args.cases.split(",") if name.strip()]
        count = 0
        for records in run_cases(job, MEASURES, cases):
            write_records(args.out, records)  # at once: a case that fails later takes nothing with it
            count += len(records)
    except InvalidInputError as error:
        print(error, file=sys.stderr)
        return 2
    except LiveAnchorError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"{count} rows -> {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
