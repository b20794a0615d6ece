"""What the documents tell people to type works: Python blocks run, command lines parse, links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import wave
from pathlib import Path

import cv2
import numpy as np
import pytest
import typer

from engines.weights.home import FACE_DIR_ENV, HOME_ENV
from pipeline.presenter.draw import draw_presenter
from serve_app.cli.app import app
from tests.support.faces import face_weights

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(encoding="utf-8"), re.M | re.S)


def run(block: str, folder: Path, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), HOME_ENV: str(folder / "home"), **variables}
    command = [sys.executable, "-c", block]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_ten_lines_of_python_make_an_mp4(tmp_path: Path) -> None:
    weights = face_weights()
    cv2.imwrite(str(tmp_path / "me.jpg"), draw_presenter(360, 640).rgb[..., ::-1])
    with wave.open(str(tmp_path / "speech.wav"), "wb") as speech:
        speech.setparams((1, 2, 16_000, 0, "NONE", ""))
        speech.writeframes(np.random.default_rng(7).integers(-9000, 9000, 8000).astype("<i2").tobytes())
    (block,) = blocks(ROOT / "docs" / "python.md", "python")
    assert len(block.strip().splitlines()) <= 12
    said = run(block, tmp_path, **{FACE_DIR_ENV: str(weights)})
    assert said.splitlines()[-1] == "25 frames of 360x640, 0.50 s"
    video = cv2.VideoCapture(str(tmp_path / "talk.mp4"))
    assert video.get(cv2.CAP_PROP_FPS) == 50 and video.get(cv2.CAP_PROP_FRAME_COUNT) == 25


def test_the_interpolator_s_lines_run(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "docs" / "rife.md", "python")
    shown = "\nprint(tuple(between.shape), between.dtype)"
    assert run(block + shown, tmp_path).strip() == "(2, 512, 512, 3) torch.uint8"


def command_lines() -> list[str]:
    lines = [line for block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]
    return [match.group(1) for line in lines if (match := re.search(r"(liveanchor [^#)]*)", line))]


def test_the_readme_has_command_lines() -> None:
    assert {shlex.split(line)[1] for line in command_lines()} >= {"generate", "avatar", "compare", "doctor", "serve"}


@pytest.mark.parametrize("line", command_lines())
def test_every_command_line_of_the_readme_is_understood(line: str) -> None:
    command, (_, *arguments) = typer.main.get_command(app), shlex.split(line)
    while hasattr(command, "commands"):
        command = command.commands[arguments.pop(0)]
    command.make_context("liveanchor", arguments)


def test_what_the_readme_s_commands_write_is_no_change_of_the_checkout() -> None:
    readme = (ROOT / "README.md").read_text()
    written = set(re.findall(r"(?:--out|-o) (\S+)", readme))
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"talk.mp4", "me.jpg", "served.mp4"} <= written
    assert all(f"/*{Path(name).suffix}" in ignored for name in written if "/" not in name)


def test_curl_in_the_documents_notices_errors() -> None:
    for name in ("README.md", "docs/http.md"):
        for block in re.findall(r"^```\w*\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), re.M | re.S):
            for line in re.findall(r"^.*\bcurl .*$", block, re.M):
                assert "curl --fail-with-body -sS " in line, line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 140
