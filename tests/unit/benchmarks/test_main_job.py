"""The command that makes main_job.json: which cases run, what is refused, what is written down."""

from datetime import date
from pathlib import Path

import pytest

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from benchmarks.main_job import DEFAULT_OUT, command_line, main, parse
from benchmarks.quality.main_job_run import CaseLeftOut, MainJob, Options, run_cases
from kernels.errors import InvalidInputError

RUN = RunInfo("cpu", "cpu, 2 cores", "2.13.0", "0123abc", date(2026, 1, 2), "python -m benchmarks.main_job")


@pytest.fixture
def job(tmp_path: Path) -> MainJob:
    return MainJob(Options(portrait=None, sentences=2, quick=True, face_weights=tmp_path), RUN)


def rows(*cases: str) -> list[BenchmarkRecord]:
    return [
        make_record(RUN, suite="main_job", case=case, unit="ms", samples=[1.0], higher_is_better=False)
        for case in cases
    ]


def test_a_measure_runs_once_and_only_when_one_of_its_cases_is_wanted(job: MainJob) -> None:
    calls: list[str] = []

    def lips(_: MainJob) -> list[BenchmarkRecord]:
        calls.append("lips")
        return rows("r", "lag")

    def speed(_: MainJob) -> list[BenchmarkRecord]:
        calls.append("speed")
        return rows("ms")

    table = {lips: ("r", "lag"), speed: ("ms",)}
    assert [r.case for made in run_cases(job, table, ["lag"]) for r in made] == ["lag"]
    assert calls == ["lips"]
    assert [r.case for made in run_cases(job, table, []) for r in made] == ["r", "lag", "ms"]
    assert calls == ["lips", "lips", "speed"]
    with pytest.raises(InvalidInputError, match="lagg"):
        list(run_cases(job, table, ["lagg"]))


def test_a_case_that_cannot_be_measured_here_is_left_out_aloud(
    job: MainJob, capsys: pytest.CaptureFixture[str]
) -> None:
    def photo(_: MainJob) -> list[BenchmarkRecord]:
        raise CaseLeftOut("no --portrait was given")

    table = {photo: ("r_portrait",), lambda _: rows("ms"): ("ms",)}
    assert [r.case for made in run_cases(job, table, []) for r in made] == ["ms"]
    assert "left out: r_portrait: no --portrait" in capsys.readouterr().err


def test_quick_numbers_cannot_be_published(capsys: pytest.CaptureFixture[str]) -> None:
    before = DEFAULT_OUT.read_bytes() if DEFAULT_OUT.exists() else None
    assert main(["--quick"]) == 2
    assert "quick" in capsys.readouterr().err
    assert (DEFAULT_OUT.read_bytes() if DEFAULT_OUT.exists() else None) == before


def test_a_photo_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--portrait", str(tmp_path / "nobody.png"), "--out", str(tmp_path / "x.json")]) == 2
    assert "nobody.png" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_the_recorded_command_names_the_photo_but_not_where_it_lay() -> None:
    args = parse(["--portrait", "/somewhere/private/photo.png", "--sentences", "30"])
    assert command_line(args) == "python -m benchmarks.main_job --portrait photo.png --sentences 30"
    assert command_line(parse([])) == "python -m benchmarks.main_job"
