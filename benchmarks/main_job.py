"""The command that makes `results/cpu-2core/main_job.json`: every case of the main job, quality and speed, on this machine.

`python -m benchmarks.main_job --portrait PHOTO`
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from benchmarks.core.record import write_records
from benchmarks.core.run_info import RESULTS_DIR, describe_run
from benchmarks.quality.main_job_run import SUITE, MainJob, Options, run_cases
from engines.weights.home import face_weights_dir
from kernels.errors import InvalidInputError, LiveAnchorError

DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
SENTENCES: Final = 20
QUICK_SENTENCES: Final = 3


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.main_job", description=__doc__)
    parser.add_argument("--portrait", type=Path, help="a photo for lip_sync_r_portrait")
    parser.add_argument("--cases", default="", help="comma-separated case names; all when left out")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help=f"held-out sentences, {SENTENCES} by default")
    parser.add_argument("--quick", action="store_true", help="a rough look; needs --out, never published")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument("--face-weights", type=Path, help="folder of the face mesh, when not pulled")
    return parser.parse_args(arguments)


def command_line(arguments: argparse.Namespace) -> str:
    """The command that re-makes the rows; the photo's folder is the reader's own business."""
    words = ["python -m benchmarks.main_job"]
    if arguments.portrait is not None:
        words.append(f"--portrait {arguments.portrait.name}")
    if arguments.sentences != SENTENCES:
        words.append(f"--sentences {arguments.sentences}")
    return " ".join(words)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 done, 2 bad usage, 1 failure."""
    args = parse(arguments)
    try:
        if args.quick and args.out.resolve().is_relative_to(RESULTS_DIR.resolve()):
            raise InvalidInputError("out", "results/ with --quick", "a file elsewhere: quick numbers are not published")
        if args.portrait is not None and not args.portrait.is_file():
            raise InvalidInputError("portrait", str(args.portrait), "an image file")
        from benchmarks.quality.main_job_cases import MEASURES

        options = Options(
            portrait=args.portrait,
            sentences=QUICK_SENTENCES if args.quick else args.sentences,
            quick=args.quick,
            face_weights=args.face_weights or face_weights_dir(),
        )
        job = MainJob(options, describe_run(command_line(args)))
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
