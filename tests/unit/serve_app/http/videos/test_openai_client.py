"""The `openai` package's own client makes, polls, lists, fetches and deletes videos here."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.http_server import Served, serving

openai = pytest.importorskip("openai")
TEXT = "Good evening. It is cold."


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as one:
        yield one


@pytest.fixture
def client(served: Served) -> Iterator[Any]:
    with openai.OpenAI(api_key="none", base_url=f"http://127.0.0.1:{served.port}/v1", max_retries=0) as one:
        yield one


def test_a_video_from_its_text_to_its_file(served: Served, client: Any) -> None:
    video = client.videos.create_and_poll(
        model="mini", prompt=TEXT, extra_body={"seed": 7, "fps": 50}, poll_interval_ms=20
    )
    assert (video.status, video.progress, video.error, video.prompt) == ("completed", 100, None, TEXT)
    assert video.model == "mini" and video.model_extra["fps"] == 50
    made = client.videos.download_content(video.id).read()
    assert made == served.client.post("/generate", json={"prompt": TEXT, "seed": 7, "fps": 50}).content
    picture = client.videos.download_content(video.id, variant="thumbnail").read()
    assert Image.open(io.BytesIO(picture)).size == (128, 160)


def test_videos_are_looked_after(served: Served, client: Any) -> None:
    served.jobs.resting = True
    ids = [client.videos.create(model="mini", prompt=TEXT).id for _ in range(3)]
    assert [one.id for one in client.videos.list(limit=2)] == ids[::-1], "the client turns the pages"
    assert client.videos.retrieve(ids[0]).status == "queued"
    with pytest.raises(openai.ConflictError):
        client.videos.download_content(ids[0])
    assert client.videos.delete(ids[0]).deleted
    with pytest.raises(openai.NotFoundError):
        client.videos.retrieve(ids[0])


def test_a_refusal_says_what_was_wrong(client: Any) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as raised:
        client.videos.create(model="another", prompt=TEXT)
    problem = raised.value.response.json()
    assert (problem["field"], problem["allowed"]) == ("model", "mini")
