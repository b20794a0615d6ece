"""What the cases of the main job share, and how they are run one after the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from benchmarks.core.record import BenchmarkRecord, format_table
from benchmarks.core.run_info import RunInfo
from benchmarks.quality.aperture import face_mesh_meter
from benchmarks.quality.speaking import Face, Meter, Sentence, ceiling_clips, rest_limit, spoken_clips
from kernels.errors import InvalidInputError, LiveAnchorError
from training.lip_sync import SpokenClip, closures, pooled_r

if TYPE_CHECKING:
    from benchmarks.quality.local_face import LocalFace
    from pipeline.session.local_job import LocalPipeline

SUITE: Final = "main_job"
Job = TypeVar("Job")
"""What the cases of one command share."""


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
    job: Job, table: dict[Callable[[Job], list[BenchmarkRecord]], tuple[str, ...]], wanted: Iterable[str]
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
