"""The command line's own manners: exit codes, one clear line on stderr, help with an example."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.avatars.store import AvatarSummary
from pipeline.config import SessionSettings
from serve_app.cli.app import app, main
from serve_app.cli.finding import Finding
from tests.support.media_samples import talking_canvases, video_of
from tests.support.paths import ROOT

COMMANDS = [
    ["generate"],
    ["serve"],
    ["compare"],
    ["doctor"],
    ["bench"],
    ["avatar", "register"],
    ["avatar", "list"],
    ["avatar", "picture"],
    ["avatar", "delete"],
    ["jobs", "list"],
    ["jobs", "show"],
    ["jobs", "cancel"],
    ["jobs", "retry"],
    ["weights", "list"],
    ["weights", "pull"],
    ["weights", "import"],
    ["weights", "verify"],
    ["engine", "build"],
    ["engine", "list"],
    ["engine", "verify"],
]


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["liveanchor", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    plain = re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", result.output))
    assert f"Example: liveanchor {' '.join(command)}" in plain


def test_no_arguments_show_the_commands() -> None:
    assert "generate" in CliRunner().invoke(app, []).output


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--audio", "missing.wav", "--out", "x.mp4"], "--audio"),
        (["--audio", ".", "--out", "x.mp4"], "--audio"),
        (["--audio", "AUDIO", "--out", "no/such/folder/x.mp4"], "--out"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--fps", "30"], "--fps"),
        (
            ["--audio", "AUDIO", "--out", "x.mp4", "--chunk-frames", "5"],
            "--chunk-frames: got 5 (allowed: 4, 8, 16, 25)",
        ),
        (["--audio", "AUDIO", "--out", "x.mp4", "--chunk-frames", "8.5"], "--chunk-frames: got 8.5"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--fps", "nan"], "--fps"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--fps", "25,0"], "--fps: got 25,0 (allowed: 25, 50, 59.94)"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--fps", "fast"], "--fps: got fast (allowed: 25, 50, 59.94)"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--fps", "1e400"], "--fps"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--seed", "-5"], "--seed: got -5 (allowed: a whole number, 0 to"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--seed", "1e400"], "--seed"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--seed", "5.0", "--chunk-frames", "8.0"], "audio"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--avatar", "a", "--portrait", "AUDIO"], "--avatar"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--portrait", "b.png"], "--portrait"),
        (["--audio", "AUDIO", "--out", "x.mp4"], "audio"),
        (["--audio", "SPEECH", "--out", "x.mp4", "--local", "--avatar", "../../etc"], "--avatar: got '../../etc'"),
        (["--audio", "SPEECH", "--out", "x.mp4", "--avatar", "Anna"], "`liveanchor avatar list` shows the ids"),
        (["--audio", "SPEECH", "--out", "x.mp4", "--local", "--avatar", "0" * 32], "--avatar: no avatar 000"),
        (["--audio", "AUDIO", "--out", "x.mp4", "--local"], "audio"),
        (["--audio", "SPEECH", "--out", "SPEECH", "--local"], "--out"),
        (["--audio", "SPEECH", "--out", "x.wav", "--local"], ".mp4"),
        (["--audio", "SPEECH", "--out", "AUDIO", "--portrait", "AUDIO", "--local"], "--out"),
        (["--audio", "SPEECH", "--out", "x.mp4", "--local", "--portrait", "AUDIO"], "portrait"),
        (["--audio", "SPEECH", "--out", "x.mp4", "--local", "--portrait", "AUDIO"], "or a short video"),
    ],
)
def test_bad_input_is_one_line_that_names_it_and_code_2(
    arguments: list[str],
    names: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path / "home"))
    (tmp_path / "noise.wav").write_text("this is not sound")
    with wave.open(str(tmp_path / "speech.wav"), "wb") as good:
        good.setparams((1, 2, 16_000, 0, "NONE", ""))
        good.writeframes(bytes(2 * 1600))
    arguments = [{"AUDIO": "noise.wav", "SPEECH": "speech.wav"}.get(a, a) for a in arguments]
    assert run_main(monkeypatch, "generate", *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.strip().splitlines()
    assert len(lines) == 1 and names in lines[0] and "allowed" in lines[0]
    assert not (tmp_path / "x.mp4").exists()


@pytest.mark.parametrize(
    ("yaml", "variables", "names"),
    [
        ("limits: {max_audio: 3}", {}, "limits.max_audio"),
        ("limits: {max_audio_s: 0}", {}, "limits.max_audio_s"),
        ("applications: []", {}, "applications"),
        ("{", {}, "config"),
        ("", {"LIVEANCHOR_LIMITS__MAX_AUDIO_S": "long"}, "limits.max_audio_s"),
        ("", {"LIVEANCHOR_LIMTS__MAX_AUDIO_S": "3"}, "LIVEANCHOR_LIMTS__MAX_AUDIO_S"),
        ("", {"LIVEANCHOR_HTTP__CORS_ORIGINS": "https://news.example"}, "LIVEANCHOR_HTTP__CORS_ORIGINS"),
    ],
)
def test_a_bad_configuration_is_one_line_that_names_the_setting_and_code_2(
    yaml: str,
    variables: dict[str, str],
    names: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ray.serve")
    path = tmp_path / "c.yaml"
    path.write_text(yaml)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run_main(monkeypatch, "serve", "--config", str(path)) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and names in lines[0] and "allowed" in lines[0]


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("limits: {max_audio: 3}", ("limits.max_audio", "max_audio_s", "max_upload_bytes")),
        ("deployments: {renderer: {replicas: 3}}", ("deployments.renderer.replicas", "max_replicas")),
        ("limit: {max_audio_s: 3}", ("limit:", "limits", "stores")),
        ("applications: [{args: {}}]", ("args:", "serve deploy")),
        ("args: {limits: {max_audio_s: 3}}", ("args:", "serve deploy")),
    ],
)
def test_an_unknown_setting_is_answered_with_the_known_ones(
    yaml: str,
    says: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ray.serve")
    path = tmp_path / "c.yaml"
    path.write_text(yaml)
    assert run_main(monkeypatch, "serve", "--config", str(path)) == 2
    line = capsys.readouterr().err
    assert "Extra inputs" not in line
    assert all(part in line for part in says), line


@pytest.mark.parametrize("arguments", [["generate"], ["nonsense"], ["generate", "--seed", "-1"], ["bench", "nope"]])
def test_wrong_usage_is_code_2(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(monkeypatch, *arguments) == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInputError("f", "g", "a"), 2),
        (LiveAnchorError("broken"), 1),
        (OSError(28, "No space left on device", "talk.mp4"), 1),
    ],
)
def test_typed_errors_become_exit_codes(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("serve_app.cli.diagnosis.diagnose", fail)
    assert run_main(monkeypatch, "doctor") == code
    assert capsys.readouterr().err.startswith("liveanchor: ")


def test_the_version_is_the_package_s() -> None:
    from importlib import metadata

    assert CliRunner().invoke(app, ["--version"]).output.strip() == metadata.version("liveanchor")


def test_being_told_to_end_leaves_nothing_half_written(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from pipeline.session import local_job as local\nimport serve_app.cli.app as cli\n"
        "def begin(self, *rest, **more):\n"
        "    from pipeline.config import EncoderSettings\n    from pipeline.media.encoder import VideoFormat\n"
        "    from pipeline.media.mp4 import PathMp4Writer\n"
        "    writer = PathMp4Writer(Path(sys.argv[-1]), VideoFormat(64, 64, 25), None, EncoderSettings())\n"
        "    try:\n        assert list(Path(sys.argv[-1]).parent.glob('.*.part'))\n        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        signal.pause()\n    finally:\n        writer.close()\n"
        "local.LocalPipeline.generate_file = begin\nlocal.LocalPipeline.avatar = lambda *a: None\n"
        "sys.argv = ['liveanchor', 'generate', '--local', '--audio', sys.argv[1], '--out', sys.argv[2]]\ncli.main()\n"
    )
    speech = ROOT / "docs" / "demo" / "speech.wav"
    done = subprocess.run(
        [sys.executable, "-c", code, str(speech), str(tmp_path / "x.mp4")],
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 130 and not list(tmp_path.iterdir()), done.stderr.decode()[-800:]


def test_doctor_speaks_json() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    findings = {finding["name"]: finding for finding in json.loads(result.output)}
    assert findings["python"]["level"] == "ok"
    assert all(finding["advice"] for finding in findings.values() if finding["level"] != "ok")


def test_compare_shows_jumps_and_names_the_file_at_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = list(talking_canvases(24, 96, 160, speed=0.35))
    before, after, small = (str(tmp_path / name) for name in ("before.mp4", "after.mp4", "small.mp4"))
    Path(before).write_bytes(video_of(talk))
    talk[15] = talk[4]
    Path(after).write_bytes(video_of(talk))
    Path(small).write_bytes(video_of(list(talking_canvases(4, 64, 64, speed=0.35))))
    assert run_main(monkeypatch, "compare", before, after) == 0
    said = capsys.readouterr().out
    assert re.search(r"spikes_only_first\W+none", said) and re.search(r"spikes_only_second\W+2 \(frames 15, 16\)", said)
    assert "96x160, 24 frames, 25 a second" in said
    assert run_main(monkeypatch, "compare", before, after) == 0
    assert "look at those in spikes_only_second" in " ".join(capsys.readouterr().err.split())
    assert run_main(monkeypatch, "compare", before, before) == 0
    assert capsys.readouterr().err == ""
    assert run_main(monkeypatch, "compare", before, small) == 2
    assert "B.mp4: got 64x64" in capsys.readouterr().err


def test_no_presenters_is_said_and_no_empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.session.local_job.list_presenters", list)
    result = CliRunner().invoke(app, ["avatar", "list"])
    assert result.exit_code == 0 and "avatar register" in result.output and result.stdout == ""


def test_brackets_in_what_is_shown_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [AvatarSummary("0" * 32, "Anna [/b] [red]", "mini", 720, 1280)]
    monkeypatch.setattr("pipeline.session.local_job.list_presenters", lambda: shown)
    assert "Anna [/b] [red]" in CliRunner().invoke(app, ["avatar", "list"]).output
    shown.append(AvatarSummary("1" * 32, "", "mini", 720, 1280, used_at=1_800_000_000.0))
    assert re.search(
        r"always.*temporary, last used\s+2027-01-1",
        CliRunner(env={"COLUMNS": "200"}).invoke(app, ["avatar", "list"]).output,
        re.S,
    )

    finding = Finding("gpu", "optional", "none", "pip install 'liveanchor[gpu]'")
    monkeypatch.setattr("serve_app.cli.diagnosis.diagnose", lambda: [finding])
    assert "liveanchor[gpu]" in CliRunner().invoke(app, ["doctor"]).output


def test_a_name_in_brackets_is_bad_input_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, "weights", "pull", "[/x]") == 2
    assert "[/x]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "sent", "exact"), [("25", "25", 25), ("50", "50", 50), ("59.94", "59.94", 59.94), (None, "25", 25)]
)
def test_the_frame_rate_arrives_as_the_service_wants_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, typed: str | None, sent: str, exact: float
) -> None:
    """A float flag reaches HTTP as people write it."""
    from serve_app.http.body.fields import fps_field
    from serve_app.http.body.pieces import RawForm

    audio = tmp_path / "a.wav"
    with wave.open(str(audio), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(b"\x01\x00" * 1600)
    asked: list[float] = []

    def generate(*paths: Path, settings: SessionSettings, **rest: object) -> int:
        asked.append(settings.fps)
        return 1

    monkeypatch.setattr("serve_app.cli.remote.generate_remote", generate)
    flags = [] if typed is None else ["--fps", typed]
    assert run_main(monkeypatch, "generate", "--audio", str(audio), "--out", str(tmp_path / "x.mp4"), *flags) == 0
    form = RawForm()
    form.values["fps"] = f"{asked[0]:g}"
    assert form.values["fps"] == sent and fps_field(form, 25) == exact
    assert repr(asked[0]) == repr(exact)


def test_in_a_pipe_what_a_cluster_waits_for_is_said_in_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def generate(*paths: Path, on_status: Callable[[str], None], **rest: object) -> int:
        on_status("starting Ray")
        on_status("speaking [now]")
        return 1

    speech = ROOT / "docs" / "demo" / "speech.wav"
    monkeypatch.setattr("serve_app.cli.remote.generate_remote", generate)
    assert run_main(monkeypatch, "generate", "--audio", str(speech), "--out", str(tmp_path / "x.mp4")) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == ["starting Ray", "speaking [now]"] and said.out.strip() == str(tmp_path / "x.mp4")
