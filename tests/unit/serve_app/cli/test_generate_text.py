"""`liveanchor generate --text`: here and through a service, captions beside the mp4, and errors in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import pytest

from pipeline.voices.errors import VoiceFailedError, VoiceMissingError
from tests.support.fake_voice import FakeVoice
from tests.support.http_server import Served, serving
from tests.unit.serve_app.cli.test_commands import run_main

TEXT = "Good evening. Here is the news."


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("text")) as one:
        yield one


def frames_of(path: Path) -> int:
    with av.open(str(path)) as file:
        assert file.streams.audio[0].rate == 24_000
        return sum(1 for _ in file.decode(video=0))


def test_through_a_service_with_captions(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIVEANCHOR_URL", f"http://127.0.0.1:{served.port}")
    served.host.voice = FakeVoice()
    plain, with_captions = tmp_path / "plain.mp4", tmp_path / "news.mp4"
    assert run_main(monkeypatch, "generate", "--text", TEXT, "--out", str(plain)) == 0
    assert run_main(monkeypatch, "generate", "--text", TEXT, "--out", str(with_captions), "--captions") == 0
    assert frames_of(plain) == frames_of(with_captions) > 40
    assert (tmp_path / "news.vtt").read_text().count("-->") == 2 and not (tmp_path / "plain.vtt").exists()
    assert capsys.readouterr().out.split() == [str(plain), str(with_captions)]


def test_a_service_whose_voice_fails_is_told_and_leaves_no_file(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIVEANCHOR_URL", f"http://127.0.0.1:{served.port}")
    for flags in ([], ["--captions"]):
        served.host.voice = FakeVoice(refused={"Good": VoiceFailedError("x")})
        assert run_main(monkeypatch, "generate", "--text", TEXT, "--out", str(tmp_path / "x.mp4"), *flags) == 1
        assert "502: The voice refused this text" in " ".join(capsys.readouterr().err.split())
    served.host.voice = FakeVoice()
    assert run_main(monkeypatch, "generate", "--text", "long. " * 1600, "--out", str(tmp_path / "x.mp4")) == 2
    assert "prompt: got more than 600 s" in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--text", TEXT, "--audio", "x.wav"], "--text: got --text together with --audio"),
        ([], "--audio: got neither --audio nor --text"),
        (["--text", " ... "], "--text: got '...'"),
        (["--text", "a" * 10_001], "--text: got 10001 characters"),
        (["--audio", "DEMO", "--captions"], "--captions: got no --text"),
        (["--text", TEXT, "--captions", "--out", "no/such/x.mp4"], "--out"),
    ],
)
def test_wrong_combinations_are_one_line_and_code_2(
    flags: list[str], names: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DEMO").write_bytes(b"x")
    out = [] if "--out" in flags else ["--out", "x.mp4"]
    assert run_main(monkeypatch, "generate", "--local", *flags, *out) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert names in line and "allowed" in line


def test_without_any_voice_one_line_says_what_to_install_or_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "pipeline.voices.choice.find_voice", lambda settings: FakeVoice(missing=VoiceMissingError("hibari-tts"))
    )
    assert run_main(monkeypatch, "generate", "--local", "--text", TEXT, "--out", str(tmp_path / "x.mp4")) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "hibari-tts is not installed" in said and "liveanchor[speech]" in said and "LIVEANCHOR_VOICES__URL" in said
