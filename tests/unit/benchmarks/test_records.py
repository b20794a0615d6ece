"""Committed results validate, and the writer keeps them valid."""

import json
from datetime import date
from pathlib import Path

import pytest
from pydantic import ValidationError

from benchmarks.core.record import BenchmarkRecord, format_table, make_record, read_records, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from kernels.errors import InvalidInputError

RUN = RunInfo(
    device="cpu",
    cpu="some cpu, 2 cores",
    torch="2.13.0",
    commit="0123abc",
    date=date(2026, 11, 29),
    command="python x.py",
)
FIELDS = (
    "suite case unit value n p5 p95 baseline baseline_value ratio floor_value device cpu torch commit date command"
).split()


def record(case: str = "a_ms", value: float = 2.0, **changes: object) -> BenchmarkRecord:
    made = make_record(
        RUN, suite="s", case=case, unit="ms", samples=[2.0], higher_is_better=False, baseline="old", baseline_value=8.0
    )
    return BenchmarkRecord(**{**made.model_dump(), "value": value, "ratio": 8.0 / value, **changes})


def test_committed_results_validate() -> None:
    for path in sorted(RESULTS_DIR.rglob("*.json")):
        records = read_records(path)
        assert records, path
        assert {r.suite for r in records} == {path.stem}, path


def test_fields_are_exactly_the_published_ones() -> None:
    assert list(BenchmarkRecord.model_fields) == FIELDS


def test_ratio_above_one_is_better_in_both_directions() -> None:
    time = make_record(
        RUN,
        suite="s",
        case="t",
        unit="ms",
        samples=[2.0, 4.0, 6.0],
        higher_is_better=False,
        baseline="b",
        baseline_value=8.0,
    )
    rate = make_record(
        RUN, suite="s", case="r", unit="fps", samples=[50.0], higher_is_better=True, baseline="b", baseline_value=25.0
    )
    assert (time.value, time.n, time.ratio) == (4.0, 3, 2.0)
    assert time.p5 == pytest.approx(2.2) and time.p95 == pytest.approx(5.8)
    assert rate.ratio == 2.0 and rate.p5 is None and rate.p95 is None


def test_no_ratio_against_a_baseline_that_is_not_positive() -> None:
    made = make_record(
        RUN, suite="s", case="r", unit="1", samples=[0.7], higher_is_better=True, baseline="wrong", baseline_value=-0.02
    )
    assert made.ratio is None and made.baseline_value == -0.02


def test_pooled_value_and_count_may_differ_from_the_samples() -> None:
    made = make_record(
        RUN,
        suite="s",
        case="r",
        unit="1",
        samples=[0.1, 0.9],
        higher_is_better=True,
        value=0.62,
        n=1500,
        floor_value=0.9,
    )
    assert (made.value, made.n, made.floor_value) == (0.62, 1500, 0.9)


def test_a_known_spread_is_taken_as_it_is() -> None:
    made = make_record(
        RUN, suite="s", case="t", unit="ms", samples=[2.0], n=24, spread=(1.5, 3.0), higher_is_better=False
    )
    assert (made.value, made.n, made.p5, made.p95) == (2.0, 24, 1.5, 3.0)


@pytest.mark.parametrize("samples", [[], [1.0, float("nan")], [float("inf")]])
def test_samples_must_exist_and_be_finite(samples: list[float]) -> None:
    with pytest.raises(InvalidInputError):
        make_record(RUN, suite="s", case="c", unit="ms", samples=samples, higher_is_better=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"ratio": 3.0},
        {"ratio": -1.0},
        {"value": float("nan")},
        {"n": 0},
        {"p5": 1.0},
        {"p5": 3.0, "p95": 1.0},
        {"baseline": None},
        {"baseline_value": -8.0},
        {"commit": "main"},
        {"case": "With Blank"},
        {"surprise": 1},
    ],
)
def test_inconsistent_records_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        record(**changes)


def test_writer_merges_by_case_and_keeps_order(tmp_path: Path) -> None:
    path = tmp_path / "cpu" / "s.json"
    write_records(path, [record("a_ms", 2.0), record("b_ms", 3.0)])
    write_records(path, [record("c_ms", 4.0), record("a_ms", 5.0)])
    assert [(r.case, r.value) for r in read_records(path)] == [("a_ms", 5.0), ("b_ms", 3.0), ("c_ms", 4.0)]
    assert [p.name for p in path.parent.iterdir()] == ["s.json"]
    assert list(json.loads(path.read_text())[0]) == FIELDS


def test_writer_refuses_a_case_twice_and_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    with pytest.raises(InvalidInputError):
        write_records(path, [record(), record()])
    assert not path.exists()
    path.write_text('[{"suite": "s"}]')
    with pytest.raises(InvalidInputError):
        write_records(path, [record()])
    assert path.read_text() == '[{"suite": "s"}]'


def test_reader_refuses_a_case_twice(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    row = record().model_dump(mode="json")
    path.write_text(json.dumps([row, row]))
    with pytest.raises(InvalidInputError, match="a_ms"):
        read_records(path)


def test_describe_run_fills_the_machine() -> None:
    run = describe_run("python -m benchmarks.x", today=lambda: date(2026, 1, 2))
    made = make_record(run, suite="s", case="c", unit="ms", samples=[1.0], higher_is_better=False)
    assert (made.device, made.date, made.command) == ("cpu", date(2026, 1, 2), "python -m benchmarks.x")
    assert "cores" in made.cpu


def test_table_shows_value_baseline_and_bound() -> None:
    text = format_table([record(floor_value=0.5)])
    assert "a_ms" in text and "old: 8" in text and "bound 0.5" in text
