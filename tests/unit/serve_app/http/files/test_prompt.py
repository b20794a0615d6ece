"""Text in place of speech, over HTTP: the voice speaks it, the answer has its captions, and bad text is refused by its field."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import pytest

from deployments.config import SessionHostSettings
from kernels.errors import LiveAnchorError
from pipeline.voices.errors import VoiceFailedError, VoiceMissingError, VoiceUnreachableError
from pipeline.voices.sentences import MAX_CHARACTERS
from tests.support.fake_voice import FakeVoice
from tests.support.http_server import InProcessHost, Served, assert_problem, serving, wav

TEXT = "Good evening. Here is the news."


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("prompt")
    encoder = {"prefer": "x264", "file_preset": "ultrafast"}
    settings = SessionHostSettings.model_validate({"encoder": encoder, "limits": {"max_audio_s": 20}})
    with serving(folder, InProcessHost(folder, settings)) as one:
        yield one


@pytest.fixture
def served(one_server: Served) -> Served:
    one_server.host.voice = FakeVoice()
    return one_server


def form(**fields: str) -> dict[str, tuple[None, str]]:
    return {name: (None, value) for name, value in fields.items()}


def test_a_prompt_is_spoken_into_the_file(served: Served) -> None:
    answer = served.client.post("/generate", files=form(prompt=TEXT, fps="25"))
    assert answer.status_code == 200, answer.text
    assert served.host.voice.said == ["Good evening.", "Here is the news."]  # type: ignore[attr-defined]
    with av.open(io.BytesIO(answer.content)) as file:
        sound = file.streams.audio[0]
        assert (sound.rate, sound.channels) == (24_000, 1)
        assert file.streams.video[0].frames == int(answer.headers["x-frames"]) > 40
    again = served.client.post("/generate", json={"prompt": TEXT})
    assert again.content == answer.content, "the same text gives the same file"


def test_a_kept_file_comes_with_its_captions_and_a_speech_has_none(served: Served) -> None:
    found = served.client.post("/api/generate", json={"prompt": TEXT, "seed": 3}).json()
    assert found["captions"].startswith("WEBVTT\n\n00:00:00.000 --> 00:00:0")
    assert "\nGood evening.\n" in found["captions"] and found["captions"].count("-->") == 2
    last = found["captions"].rpartition("--> 00:00:0")[2].partition("\n")[0]
    assert float(last) == pytest.approx(found["duration_s"], abs=0.1)
    assert served.client.get(found["url"]).status_code == 200
    heard = served.client.post("/api/generate", files={"audio": ("a.wav", wav())}).json()
    assert heard["captions"] is None


def test_an_empty_prompt_beside_a_file_is_what_browsers_send(served: Served) -> None:
    answer = served.client.post("/generate", files={"audio": ("a.wav", wav()), **form(prompt="")})
    assert answer.status_code == 200 and served.host.voice.said == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "status", "code", "field"),
    [
        ({}, 422, "missing_field", "audio"),
        ({"prompt": "  "}, 422, "invalid_input", "prompt"),
        ({"prompt": "?!"}, 422, "invalid_input", "prompt"),
        ({"prompt": "a" * (MAX_CHARACTERS + 1)}, 422, "invalid_input", "prompt"),
        ({"prompt": "\u4f60" * (MAX_CHARACTERS * 2)}, 413, "field_too_large", "prompt"),
        ({"prompt": "It takes too long. " * 40}, 422, "text_too_long", "prompt"),
        ({"text": "Hello."}, 422, "unknown_field", "text"),
    ],
)
def test_text_that_cannot_be_spoken_is_refused_by_its_field(
    served: Served, fields: dict[str, str], status: int, code: str, field: str
) -> None:
    assert_problem(served.client.post("/generate", files=form(seed="1", **fields)), status, code, field)


def test_json_takes_text_only_and_not_both(served: Served) -> None:
    for value in (5, ["Hello."], {"text": "Hello."}, True):
        assert_problem(served.client.post("/generate", json={"prompt": value}), 422, "invalid_input", "prompt")
    both = {"audio": ("a.wav", wav()), **form(prompt="Hello.")}
    assert_problem(served.client.post("/generate", files=both), 422, "conflicting_fields", "prompt")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (VoiceMissingError("hibari-tts"), 501),
        (VoiceUnreachableError("answered 503: http://10.0.0.3 is busy"), 503),
        (VoiceFailedError("the server answered 400: http://10.0.0.3 says no"), 502),
    ],
)
def test_a_voice_that_fails_is_told_as_what_it_is(served: Served, error: LiveAnchorError, status: int) -> None:
    served.host.voice = FakeVoice(refused={"Good": error})
    found = assert_problem(served.client.post("/generate", json={"prompt": TEXT}), status, error.code)
    assert "10.0.0.3" not in str(found)


def test_the_description_says_that_one_of_them_is_needed(served: Served) -> None:
    paths: dict[str, Any] = served.client.get("/openapi.json").json()["paths"]
    for path in ("/generate", "/api/generate"):
        for content in paths[path]["post"]["requestBody"]["content"].values():
            assert content["schema"]["oneOf"] == [{"required": [one]} for one in ("audio", "prompt", "audio_url")]
            assert content["schema"]["properties"]["prompt"]["maxLength"] == MAX_CHARACTERS
        assert {"501", "502"} <= set(paths[path]["post"]["responses"])


def test_a_client_that_leaves_while_its_text_is_spoken_stops_that(tmp_path: Path) -> None:
    import asyncio

    from tests.support.http_server import wait_for

    with serving(tmp_path) as own:
        own.host.voice = voice = FakeVoice(open=asyncio.Event())
        body = json.dumps({"prompt": TEXT}).encode()
        head = f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", own.port), timeout=60) as connection:
            connection.sendall(head.encode() + body)
            wait_for(lambda: voice.said == ["Good evening."])
        wait_for(lambda: own.host.ended["cancelled"] == 1 and voice.cancelled == ["Good evening."])
