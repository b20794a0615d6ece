"""`liveanchor engine`: exit codes, one clear line, a real small build where the library is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from engines.tensorrt import library as library_module
from engines.tensorrt.build import BuildSettings, profiles_of
from engines.tensorrt.cache import EngineCache, make_key
from engines.tensorrt.library import Absence
from serve_app.cli.app import app
from tests.support.tensorrt import TINY, elsewhere, fake_library, real_library
from tests.unit.serve_app.cli.test_commands import run_main


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "look_for", lambda flavour: Absence(flavour, "not installed", f"get {flavour}"))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1, said
    return said


def test_a_name_that_is_no_engine_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, "engine", "build", "ditto/nothing") == 2
    assert "ditto/lmdm_step" in one_line(capsys)


@pytest.mark.usefixtures("no_library")
def test_without_a_library_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, "engine", "build", "ditto", "--for", "sm_120") == 1
    assert "get tensorrt_rtx" in one_line(capsys)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_verify_needs_a_gpu_and_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(monkeypatch, "engine", "verify", "ditto") == 1
    assert "no GPU" in one_line(capsys)


def test_a_card_that_the_library_does_not_know_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(library_module, "look_for", lambda flavour: fake_library())
    assert run_main(monkeypatch, "engine", "build", "ditto", "--for", "sm_90") == 2
    assert "sm_120" in one_line(capsys)
    assert run_main(monkeypatch, "engine", "build", "ditto", "--for", "sm_120", "--workspace-mib", "3") == 2
    assert "--workspace-mib" in one_line(capsys)


def test_weights_that_are_not_here_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(library_module, "look_for", lambda flavour: fake_library())
    assert run_main(monkeypatch, "engine", "build", "ditto/lmdm_step", "--for", "sm_120") == 1
    assert "lmdm" in one_line(capsys)
    missing = str(tmp_path / "nowhere")
    assert run_main(monkeypatch, "engine", "build", "ditto/lmdm_step", "--for", "sm_120", "--checkpoints", missing) == 2
    assert "--checkpoints" in one_line(capsys)


def test_a_family_without_weights_is_left_out_aloud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(library_module, "look_for", lambda flavour: fake_library())
    assert run_main(monkeypatch, "engine", "build", "--for", "sm_120") == 1  # nothing could be built
    said = capsys.readouterr().err
    assert "ditto/lmdm_step: left out" in said and "rife/4.9/block0: left out" in said and "ditto/hubert" in said


def test_the_list_says_what_lies_there(home: Path) -> None:
    runner = CliRunner()
    assert "engine build" in runner.invoke(app, ["engine", "list"]).output
    build = BuildSettings().key(profiles_of(TINY), tf32=False)
    key = make_key(TINY.name, "ab" * 32, fake_library(), elsewhere(), build)
    EngineCache(home / "engines").read_or_build(key, lambda: b"plan")
    listed = json.loads(runner.invoke(app, ["engine", "list", "--json"]).output)
    assert [(row["engine"], row["for"], row["library"]) for row in listed] == [
        ("test/tiny", "sm_120", "tensorrt_rtx 1.7.1")
    ]
    known = json.loads(runner.invoke(app, ["engine", "list", "--known", "--json"]).output)
    assert {row["engine"] for row in known} >= {
        "ditto/post_warp_decoder",
        "ditto/lmdm_step",
        "ditto/hubert",
        "rife/4.25/block4",
    }


def test_a_small_engine_is_built_and_found_again(home: Path) -> None:
    real_library()
    runner = CliRunner()
    command = ["engine", "build", "rife/4.25/block4", "--for", "sm_120", "--random-weights"]
    first, second = (runner.invoke(app, command) for _ in range(2))
    assert first.exit_code == 0 and "sm_120" in first.output and "  built  " in first.output
    assert second.exit_code == 0 and "in the cache" in second.output
    assert len(EngineCache(home / "engines").entries()) == 1
