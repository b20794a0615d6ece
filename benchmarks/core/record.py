"""The one shape of a published number, and the writer that keeps a results file true to it.

A results file (`benchmarks/results/<machine>/<suite>.json`) is a JSON list of records with unique `case`. A new run
replaces the rows of the cases it measured and leaves the others alone; each row names its own commit and command.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from benchmarks.core.run_info import RunInfo
from kernels.errors import InvalidInputError

RATIO_TOLERANCE = 0.01
"""Relative; `ratio` is redundant with `value` and `baseline_value`, and must agree with them up to rounding."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


class BenchmarkRecord(BaseModel):
    """Holds a measured case.

    Attributes:
        suite: File the case belongs to, without `.json`.
        case: Unique in its file.
        unit: Of `value`, `p5`, `p95`, `baseline_value` and `floor_value`; "1" for shares and correlations.
        value: The number: a median, or a pooled statistic where the case says so.
        n: Independent measurements behind `value` (runs, sentences, phonemes, frames: the case says which).
        p5: 5th percentile over those measurements; None for one pooled number.
        p95: 95th percentile.
        baseline: What `value` is compared with, measured in the same run; None where there is nothing to compare with.
        baseline_value: The baseline's number.
        ratio: > 1 means better than the baseline; None where a quotient means nothing (no baseline, or one <= 0).
        floor_value: The bound that no implementation of this design can pass: roofline for times, ceiling for quality.
        device: Accelerator name, or "cpu".
        cpu: Processor model and the number of cores that the run could use.
        torch: Version of torch.
        commit: Commit that was measured, with "-dirty" where tracked files had changed.
        date: Day of the run, UTC.
        command: Re-makes the row.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    case: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    unit: str = Field(min_length=1)
    value: Finite
    n: int = Field(ge=1)
    p5: Finite | None
    p95: Finite | None
    baseline: str | None
    baseline_value: Finite | None
    ratio: Finite | None = Field(gt=0)
    floor_value: Finite | None
    device: str = Field(min_length=1)
    cpu: str = Field(min_length=1)
    torch: str = Field(min_length=1)
    commit: str = Field(pattern=r"^([0-9a-f]{7,40}(-dirty)?|unknown)$")
    date: date
    command: str = Field(min_length=1)

    @model_validator(mode="after")
    def _check_consistency(self) -> BenchmarkRecord:
        if (self.p5 is None) != (self.p95 is None):
            raise ValueError("p5 and p95 come together")
        if self.p5 is not None and self.p95 is not None and self.p5 > self.p95:
            raise ValueError("p5 is above p95")
        if (self.baseline is None) != (self.baseline_value is None):
            raise ValueError("baseline and baseline_value come together")
        if self.ratio is not None:
            if self.baseline_value is None or self.baseline_value <= 0 or self.value <= 0:
                raise ValueError("a ratio needs a positive value and a positive baseline_value")
            quotients = (self.value / self.baseline_value, self.baseline_value / self.value)
            if not any(math.isclose(self.ratio, quotient, rel_tol=RATIO_TOLERANCE) for quotient in quotients):
                raise ValueError(f"ratio {self.ratio} is neither value/baseline nor baseline/value: {quotients}")
        return self


RECORDS = TypeAdapter(list[BenchmarkRecord])


def make_record(
    run: RunInfo,
    *,
    suite: str,
    case: str,
    unit: str,
    samples: Sequence[float] | np.ndarray,
    higher_is_better: bool,
    value: float | None = None,
    n: int | None = None,
    spread: tuple[float, float] | None = None,
    baseline: str | None = None,
    baseline_value: float | None = None,
    floor_value: float | None = None,
) -> BenchmarkRecord:
    """Build one record.

    Args:
        run: What `describe_run` returned.
        suite: File name without `.json`.
        case: Name of the case.
        unit: Unit of all numbers.
        samples: Independent measurements; may hold the pooled value alone. p5 and p95 are taken from two samples on.
        higher_is_better: True for rates, shares, correlations; False for times, errors. Gives `ratio` its direction.
        value: The pooled statistic where it is not the median of `samples`.
        n: Count behind `value` where it is not `len(samples)`.
        spread: p5 and p95 where they are known already.
        baseline: What is compared with.
        baseline_value: Its number.
        floor_value: The bound of this design.

    Raises:
        InvalidInputError: No samples, or a sample that is not finite.
    """
    data = np.asarray(samples, dtype=np.float64)
    if data.size == 0 or not np.isfinite(data).all():
        raise InvalidInputError("samples", f"{data.size} values", "at least one value, all of them finite")
    final = float(np.median(data)) if value is None else float(value)
    ratio = None
    if baseline_value is not None and baseline_value > 0 and final > 0:
        ratio = final / baseline_value if higher_is_better else baseline_value / final
    if spread is None and data.size > 1:
        low, high = np.percentile(data, (5, 95))
        spread = (float(low), float(high))
    return BenchmarkRecord(
        suite=suite,
        case=case,
        unit=unit,
        value=_rounded(final),
        n=data.size if n is None else n,
        p5=None if spread is None else _rounded(spread[0]),
        p95=None if spread is None else _rounded(spread[1]),
        baseline=baseline,
        baseline_value=None if baseline_value is None else _rounded(baseline_value),
        ratio=None if ratio is None else _rounded(ratio),
        floor_value=None if floor_value is None else _rounded(floor_value),
        device=run.device,
        cpu=run.cpu,
        torch=run.torch,
        commit=run.commit,
        date=run.date,
        command=run.command,
    )


def read_records(path: Path) -> list[BenchmarkRecord]:
    """Read and validate a results file.

    Raises:
        InvalidInputError: Not a valid results file, or a case appears twice.
    """
    try:
        records = RECORDS.validate_json(path.read_bytes())
    except ValidationError as error:
        raise InvalidInputError(path.name, str(error.errors()[0]), "a JSON list of benchmark records") from error
    cases = [record.case for record in records]
    twice = sorted({case for case in cases if cases.count(case) > 1})
    if twice:
        raise InvalidInputError(path.name, f"{', '.join(twice)} more than once", "every case once")
    return records


def write_records(path: Path, records: Iterable[BenchmarkRecord]) -> None:
    """Merge records into a results file by `case`: known cases keep their place, new ones are appended.

    The file is replaced atomically.

    Raises:
        InvalidInputError: The file that is there is not valid, or two of the new records share a case.
    """
    fresh: dict[str, BenchmarkRecord] = {}
    for record in records:
        if record.case in fresh:
            raise InvalidInputError("records", f"{record.case} twice", "every case once")
        fresh[record.case] = record
    merged = {record.case: record for record in read_records(path)} if path.exists() else {}
    merged.update(fresh)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps(record.model_dump(mode="json"), ensure_ascii=False) for record in merged.values()]
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    beside.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    beside.replace(path)


def format_table(records: Iterable[BenchmarkRecord]) -> str:
    """Write one line per record for a terminal."""
    lines = []
    for record in records:
        spread = "" if record.p5 is None else f" [{record.p5:.4g} .. {record.p95:.4g}]"
        baseline = "" if record.baseline is None else f"  | {record.baseline}: {record.baseline_value:.4g}"
        floor = "" if record.floor_value is None else f"  | bound {record.floor_value:.4g}"
        lines.append(f"{record.case:36s} {record.value:10.4g} {record.unit:8s} n={record.n}{spread}{baseline}{floor}")
    return "\n".join(lines)


def _rounded(number: float) -> float:
    """Six significant digits: more than any clock here resolves, short enough to read."""
    return float(f"{float(number):.6g}")
