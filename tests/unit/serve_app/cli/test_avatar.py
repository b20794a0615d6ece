"""`liveanchor avatar` and `generate --portrait`: ids arrive whole, portraits of a job stay for a while, LiteRT does not greet."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from deployments.host.avatar_consents import AvatarConsents
from engines.weights.home import FACE_DIR_ENV, HOME_ENV
from kernels.errors import InvalidInputError
from pipeline.avatars.face_models import load_face_mesh
from pipeline.avatars.store import AvatarStore, AvatarSummary, avatars_dir
from pipeline.mini.presenter import default_avatar
from pipeline.session.local_job import LocalPipeline
from pipeline.types import Avatar
from serve_app.cli import console
from serve_app.cli.app import app
from serve_app.cli.diagnosis import diagnose
from serve_app.cli.generate import temporary_presenter
from serve_app.cli.native_log import without_litert_greeting
from serve_app.cli.presenter_ids import presenter_id
from serve_app.cli.remote import RemoteError, presenters_there
from tests.support.http_server import serving, small_avatar

GREETING = b"INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\n"
IDS = [f"{number:032x}" for number in (0xABCDEF0123456789, 2**128 - 1)]


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [
        AvatarSummary(IDS[0], "Anna\tof the\nevening news", "mini", 1080, 1920),
        AvatarSummary(IDS[1], "a name so long that no table of eighty columns has room", "mini", 720, 1280, 9, 1.8e9),
    ]
    monkeypatch.setattr("pipeline.session.local_job.list_presenters", lambda: shown)


def test_in_a_pipe_each_presenter_is_one_line_with_its_whole_id(two: None) -> None:
    lines = CliRunner(env={"COLUMNS": "40"}).invoke(app, ["avatar", "list"]).output.splitlines()
    cells = [line.split("\t") for line in lines]
    assert [row[0] for row in cells] == IDS and [len(row) for row in cells] == [5, 5]
    assert cells[0][1] == "Anna of the evening news" and cells[0][4] == "always"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_terminal_s_table_cuts_no_id_and_no_cell(two: None, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    written = io.StringIO()
    terminal = Console(file=written, force_terminal=True, width=width, soft_wrap=True, markup=False, color_system=None)
    monkeypatch.setattr(console, "stdout", terminal)
    assert CliRunner().invoke(app, ["avatar", "list"]).exit_code == 0
    shown = written.getvalue()
    assert all(one in shown for one in IDS) and "…" not in shown
    assert max(map(len, shown.splitlines())) <= width


def test_the_list_speaks_json(two: None) -> None:
    found = json.loads(CliRunner().invoke(app, ["avatar", "list", "--json"]).output)
    assert [(one["avatar_id"], one["used_at"]) for one in found] == [(IDS[0], None), (IDS[1], 1.8e9)]


@pytest.mark.parametrize("command", [["delete", "Anna"], ["picture", "Anna", "--out", "x.png"], ["delete", "0" * 32]])
def test_an_id_that_is_none_is_answered_with_where_they_are(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(HOME_ENV, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, ["avatar", *command]).exception
    assert isinstance(error, InvalidInputError)
    assert str(error).startswith("AVATAR_ID: ") and "liveanchor avatar list" in str(error)


@pytest.mark.parametrize("name", ["me.png", "me.jpg"])
def test_the_picture_of_a_presenter_is_its_canvas(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_ENV, str(tmp_path / "home"))
    avatar = default_avatar()
    AvatarStore(avatars_dir()).put(avatar)
    out = tmp_path / name
    done = CliRunner().invoke(app, ["avatar", "picture", avatar.avatar_id, "--out", str(out)])
    assert done.stdout.strip() == str(out), done.exception
    seen = np.asarray(Image.open(out)).astype(int)
    assert seen.shape == avatar.canvas_rgb.shape
    assert np.abs(seen - avatar.canvas_rgb).mean() < (0.001 if name == "me.png" else 3)


def test_a_picture_must_be_one_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_ENV, str(tmp_path))
    error = CliRunner().invoke(app, ["avatar", "picture", "--out", str(tmp_path / "me.gif")]).exception
    assert isinstance(error, InvalidInputError) and error.field == "--out"


def test_a_portrait_of_a_job_is_temporary_says_so_and_expires(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = default_avatar()
    monkeypatch.setattr("pipeline.avatars.face_models.load_face_mesh", lambda home: None)
    monkeypatch.setattr("pipeline.avatars.face_models.load_selfie", lambda home: None)
    monkeypatch.setattr("pipeline.mini.registration.register_file", lambda source, mesh, name, limits, selfie: made)
    pipeline = LocalPipeline(tmp_path)
    avatar: Avatar = temporary_presenter(pipeline, Path("me.jpg"), 3600.0)
    assert pipeline.store.used_at(avatar.avatar_id) is not None
    said = " ".join(capsys.readouterr().err.split())
    assert avatar.avatar_id in said and "1 h" in said and "liveanchor avatar register me.jpg" in said
    folder = avatars_dir(tmp_path) / "temporary" / avatar.avatar_id
    os.utime(folder, (1.0, 1.0))
    pipeline.store.expire(3600.0)
    assert pipeline.store.list() == []

    pipeline.register(Path("me.jpg"))
    temporary_presenter(pipeline, Path("me.jpg"), 3600.0)
    assert pipeline.store.used_at(made.avatar_id) is None and capsys.readouterr().err == ""


def test_litert_s_greeting_alone_is_kept_from_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    python_stderr = sys.stderr
    with without_litert_greeting():
        os.write(2, b"WARNING: something else\n" + GREETING)
        sys.stderr.write("a person reads this\n")
    assert sys.stderr is python_stderr
    os.write(2, GREETING)
    said = capfd.readouterr().err
    assert "something else" in said and "a person reads this" in said and said.count("XNNPACK") == 1


def test_what_native_code_said_comes_out_when_the_block_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInputError), without_litert_greeting():
        os.write(2, b"ERROR: no such operator\n")
        raise InvalidInputError("portrait", "x", "y")
    assert "no such operator" in capfd.readouterr().err


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_data_folder_that_is_a_file_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv(HOME_ENV, str(tmp_path / folder))
    error = CliRunner().invoke(app, ["avatar", "list"]).exception
    assert isinstance(error, InvalidInputError) and error.field == HOME_ENV


def test_a_face_folder_without_models_is_not_answered_with_a_pull(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(FACE_DIR_ENV, str(tmp_path / "nosuch"))
    monkeypatch.setattr("pipeline.avatars.face_models.pull", lambda *a: pytest.fail("nothing is pulled"))
    with pytest.raises(InvalidInputError, match=FACE_DIR_ENV) as caught:
        load_face_mesh(tmp_path)
    assert "nosuch" in str(caught.value)
    found = next(one for one in diagnose() if one.name == "face landmarks")
    assert found.level == "missing" and "nosuch" in found.found and FACE_DIR_ENV in found.advice


def test_help_shows_no_type_beside_a_flag() -> None:
    for command in (["--help"], ["generate", "--help"], ["engine", "list", "--help"]):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", CliRunner().invoke(app, command).output)
        assert "bool" not in shown and "--help" in shown
    assert "<path>" in re.sub(r"\x1b\[[0-9;]*m", "", CliRunner().invoke(app, ["generate", "--help"]).output)


NAMED = [("a" * 32, "Anna"), ("b" * 32, "Ben"), ("c" * 32, "Ben"), ("d" * 32, "")]


@pytest.mark.parametrize("typed", ["a" * 32, "Anna", "anna", " ANNA "])
def test_a_presenter_is_meant_by_its_id_or_by_a_name_that_only_one_has(typed: str) -> None:
    assert presenter_id(typed, "--avatar", lambda: NAMED) == "a" * 32


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("Ben", ("--avatar: got 'Ben', a name that 2 presenters have", "b" * 32, "c" * 32)),
        (
            "Carl",
            ("--avatar: got 'Carl'", "the id or the name of a presenter", "`liveanchor avatar list` shows the ids"),
        ),
        ("", ("--avatar: got ''",)),
        ("../../etc", ("--avatar: got '../../etc'",)),
        ("A" * 32, ("--avatar: got 'AAAA",)),
    ],
)
def test_a_name_that_none_or_several_have_is_refused(typed: str, says: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        presenter_id(typed, "--avatar", lambda: NAMED)
    assert all(one in str(refused.value) for one in says)


def test_an_id_needs_no_list() -> None:
    def unreachable() -> list[tuple[str, str]]:
        raise AssertionError("nobody need be asked")

    assert presenter_id("e" * 32, "--avatar", unreachable) == "e" * 32


def test_a_picture_and_a_removal_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_ENV, str(tmp_path))
    store = AvatarStore(avatars_dir(tmp_path))
    kept = store.put(small_avatar("Anna Example")).avatar_id
    out = tmp_path / "anna.png"
    assert CliRunner().invoke(app, ["avatar", "picture", "anna example", "--out", str(out)]).exit_code == 0
    assert Image.open(out).size == (128, 160)
    assert CliRunner().invoke(app, ["avatar", "delete", "Anna Example"]).exit_code == 0
    assert kept not in [one.avatar_id for one in AvatarStore(avatars_dir(tmp_path)).list()]
    with pytest.raises(InvalidInputError, match="AVATAR_ID: got 'Anna Example'"):
        CliRunner().invoke(app, ["avatar", "delete", "Anna Example"], catch_exceptions=False)


def test_a_statement_of_consent_is_kept_asked_for_and_goes_with_its_presenter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_ENV, str(tmp_path))
    portrait = tmp_path / "me.jpg"
    portrait.write_bytes(b"a picture")
    made = small_avatar("Anna")
    store = AvatarStore(avatars_dir())
    monkeypatch.setattr("pipeline.session.local_job.register_source", lambda *_, **__: store.put(made))

    def said(*arguments: str) -> str:
        return CliRunner().invoke(app, ["avatar", *arguments], catch_exceptions=False).output.strip()

    assert said("register", str(portrait), "--consent", "  Anna agreed.  ") == made.avatar_id
    [statement] = AvatarConsents("").of(made.avatar_id, None)
    assert statement.statement == "Anna agreed."
    said("delete", made.avatar_id)
    assert AvatarConsents("").of(made.avatar_id, None) == () and AvatarConsents("").all() == {}
    assert said("register", str(portrait)) == made.avatar_id and AvatarConsents("").all() == {}
    monkeypatch.setenv("LIVEANCHOR_CONSENT__NEEDED", "true")
    for wrong in ((), ("--consent", " "), ("--consent", "é" * 600)):
        with pytest.raises(InvalidInputError) as refused:
            said("register", str(portrait), *wrong)
        assert refused.value.field == "--consent"


def test_names_are_those_of_the_service_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        avatar_id = served.host.store.put(small_avatar("Only there")).avatar_id
        monkeypatch.setenv("LIVEANCHOR_URL", f"http://127.0.0.1:{served.port}/")
        assert (avatar_id, "Only there") in presenters_there()
    with pytest.raises(RemoteError, match="nobody answers"):
        presenters_there()
    monkeypatch.setenv("LIVEANCHOR_URL", "ftp://x")
    with pytest.raises(InvalidInputError, match="LIVEANCHOR_URL"):
        presenters_there()
