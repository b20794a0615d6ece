"""The command that makes picture.json: what is refused before anything runs, and what a missing photograph costs."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.picture import DEFAULT_OUT, main
from benchmarks.quality.main_job_run import CaseLeftOut
from benchmarks.quality.picture_cases import MEASURES
from benchmarks.quality.picture_photos import darker, load_photo


def test_quick_numbers_cannot_be_published(capsys: pytest.CaptureFixture[str]) -> None:
    before = DEFAULT_OUT.read_bytes() if DEFAULT_OUT.exists() else None
    assert main(["--quick"]) == 2 and "quick" in capsys.readouterr().err
    assert (DEFAULT_OUT.read_bytes() if DEFAULT_OUT.exists() else None) == before


def test_a_baseline_that_is_not_there_and_an_unknown_case_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "x.json")
    assert main(["--baseline", str(tmp_path / "none.json"), "--out", out]) == 2
    assert "none.json" in capsys.readouterr().err
    assert main(["--cases", "beauty", "--out", out]) == 2
    assert "beauty" in capsys.readouterr().err and not Path(out).exists()


def test_every_case_has_one_measure() -> None:
    cases = [case for made in MEASURES.values() for case in made]
    assert len(cases) == len(set(cases)) == 15


def test_a_photograph_whose_package_is_missing_leaves_its_cases_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("skimage", "skimage.data", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    for photo in ("astronaut", "grace_hopper"):
        with pytest.raises(CaseLeftOut, match=photo):
            load_photo(photo)


def test_less_light_is_less_light() -> None:
    photo = np.full((4, 4, 3), 200, np.uint8)
    assert darker(photo).max() == 90
