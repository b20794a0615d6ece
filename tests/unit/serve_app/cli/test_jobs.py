"""`liveanchor jobs` against a service on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from kernels.errors import InvalidInputError
from serve_app.cli.app import app
from serve_app.cli.remote import URL_ENV, RemoteError
from tests.support.http_server import Served, serving, wav


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with serving(tmp_path) as one, structlog.testing.capture_logs():
        monkeypatch.setenv(URL_ENV, f"http://127.0.0.1:{one.port}/")
        one.jobs.resting = True
        yield one


def create(served: Served) -> str:
    answer = served.client.post("/v1/videos", files={"audio": wav()}, data={"metadata": '{"story": "4711"}'})
    return str(answer.json()["id"])


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["jobs", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_videos_are_listed_shown_stopped_and_repeated(served: Served) -> None:
    assert "no videos yet" in said("list")
    first, second = create(served), create(served)
    lines = [line.split("\t") for line in said("list", "--oldest").splitlines()]
    assert [(line[0], line[1], line[2]) for line in lines] == [
        (first, "queued", "place 1"),
        (second, "queued", "place 2"),
    ]
    assert [one["id"] for one in json.loads(said("list", "--limit", "1", "--json"))["data"]] == [second]
    assert said("cancel", first).strip() == "cancelled"
    shown = dict(line.split("\t", 1) for line in said("show", first).splitlines())
    assert (shown["state"], shown["metadata story"], shown["error"]) == ("cancelled", "4711", "the video was cancelled")
    assert said("retry", first).strip() == "queued"
    assert json.loads(said("show", first, "--json"))["error"] is None


@pytest.mark.parametrize("arguments", [("show", "video_nope"), ("cancel", "../avatars"), ("retry", "a b?c#d")])
def test_an_unknown_video_is_the_caller_s_mistake(served: Served, arguments: tuple[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        CliRunner().invoke(app, ["jobs", *arguments], catch_exceptions=False)


def test_a_service_that_is_away_is_said(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    monkeypatch.setenv(URL_ENV, "http://127.0.0.1:9")
    with pytest.raises(RemoteError, match="nobody answers"):
        CliRunner().invoke(app, ["jobs", "list"], catch_exceptions=False)


@pytest.mark.parametrize("video_id", ["", "..", "a/b", "video 1", "vidéo"])
def test_what_cannot_be_an_id_is_not_asked_for(served: Served, video_id: str) -> None:
    with pytest.raises(InvalidInputError, match="ID"):
        CliRunner().invoke(app, ["jobs", "show", video_id], catch_exceptions=False)
