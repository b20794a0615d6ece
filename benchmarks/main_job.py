"""The command that makes `results/cpu-2core/main_job.json`: every case of the main job, quality and speed, on this machine.

`python -m benchmarks.main_job --portrait PHOTO`
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.core.record import RESULTS_DIR, BenchmarkRecord, RunInfo, describe_run, format_table, write_records
from benchmarks.quality.aperture import face_mesh_meter
from benchmarks.quality.lip_sync import SpokenClip, closures, pooled_r
from benchmarks.quality.speaking import Face, Meter, Sentence, ceiling_clips, rest_limit, spoken_clips
from engines.weights.home import face_weights_dir
from kernels.errors import InvalidInputError, LiveAnchorError

if TYPE_CHECKING:
    from benchmarks.quality.local_face import LocalFace
    from pipeline.session.local_job import LocalPipeline

SUITE: Final = "main_job"
DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
SENTENCES: Final = 20
QUICK_SENTENCES: Final = 3


@dataclass(frozen=True)
class Options:
    """What the command line asked for.

    Attributes:
        portrait: A photo; without it the portrait cases are left out.
        sentences: How many held-out sentences.
        quick: Fewest repetitions, for a look and not for publishing.
        face_weights: Folder of the face mesh.
    """

    portrait: Path | None
    sentences: int
    quick: bool
    face_weights: Path


@dataclass(frozen=True)
class MeasuredFace:
    """A face that has spoken all sentences.

    Attributes:
        face: The presenter.
        limit: Closed is below this aperture.
        clips: The product's mouth.
        ceiling: The mouth driven by the labels.
    """

    face: Face
    limit: float
    clips: list[SpokenClip]
    ceiling: list[SpokenClip]

    @property
    def ceiling_r(self) -> float:
        """Correlation that the labels reach."""
        return pooled_r(self.ceiling)

    @property
    def ceiling_closures(self) -> float:
        """Share of closures that the labels reach."""
        shut = closures(self.ceiling, self.limit)
        return sum(shut) / len(shut)


class MainJob:
    """What the cases share, made when a case first asks for it."""

    def __init__(self, options: Options, run: RunInfo) -> None:
        self.options = options
        self.run = run

    @cached_property
    def meter(self) -> Meter:
        """The aperture meter."""
        return face_mesh_meter(self.options.face_weights)

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Held-out sentences of held-out voices."""
        from benchmarks.quality.held_out import held_out_sentences

        return held_out_sentences(self.options.sentences)

    @cached_property
    def pipeline(self) -> LocalPipeline:
        """The product in this process."""
        from pipeline.session.local_job import LocalPipeline

        return LocalPipeline()

    @cached_property
    def presenter(self) -> LocalFace:
        """The default presenter."""
        from benchmarks.quality.local_face import presenter_face

        return presenter_face(self.pipeline)

    @cached_property
    def presenter_speech(self) -> MeasuredFace:
        """The default presenter after all sentences."""
        return self.measure(self.presenter)

    def measure(self, face: Face) -> MeasuredFace:
        """Let a face speak all sentences, and move it by their labels."""
        return MeasuredFace(
            face,
            rest_limit(face, self.meter),
            spoken_clips(face, self.meter, self.sentences),
            ceiling_clips(face, self.meter, self.sentences),
        )


Measure = Callable[[MainJob], list[BenchmarkRecord]]


class CaseLeftOut(LiveAnchorError):
    """A case cannot be measured here; the others can.

    Args:
        reason: What is missing and where to get it.
    """

    code = "case_left_out"


def run_cases(
    job: MainJob, table: dict[Measure, tuple[str, ...]], wanted: Iterable[str]
) -> Iterator[list[BenchmarkRecord]]:
    """Run every measure that makes a wanted case, and yield the wanted rows measure by measure.

    Args:
        job: What the cases share.
        table: Measure -> the cases it makes.
        wanted: Case names; empty means all.

    Raises:
        InvalidInputError: An unknown case; before anything runs.
    """
    known = [case for cases in table.values() for case in cases]
    names = list(wanted) or known
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise InvalidInputError("cases", ", ".join(unknown), ", ".join(known))
    for measure, cases in table.items():
        if set(cases) & set(names):
            began = time.perf_counter()
            try:
                made = [record for record in measure(job) if record.case in names]
            except CaseLeftOut as error:
                print(f"# left out: {', '.join(cases)}: {error}", file=sys.stderr)
                continue
            print(f"# {', '.join(cases)}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
            print(format_table(made), flush=True)
            yield made


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
