"""`POST .../speak` with text: taken in at once, in either form, and refused by its field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kernels.errors import LiveAnchorError
from pipeline.live.speech_queue import QueueFullError
from pipeline.voices.errors import VoiceMissingError
from pipeline.voices.sentences import MAX_CHARACTERS
from tests.support.http_server import Served, assert_problem, serving, wav
from tests.unit.serve_app.http.live.test_routes import offer


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("speak")) as one:
        yield one


@pytest.fixture
def served(one_server: Served) -> Served:
    one_server.host.live.reset()
    return one_server


def test_text_is_taken_in_as_json_or_as_a_form(served: Served) -> None:
    session = offer(served, drive="push")
    url = f"/stream/webrtc/{session}/speak"
    first = served.client.post(url, json={"text": " Good evening.\n"})
    assert first.status_code == 202 and first.json() == {"utterance_id": "t1", "duration_s": None, "queued_s": 0.0}
    served.client.post(url, files={"audio": wav(0.5)})
    second = served.client.post(url, files={"text": (None, "Good night. " * 300)})
    assert second.json() == {"utterance_id": "t2", "duration_s": None, "queued_s": 0.5}
    assert served.host.live.sessions[session].texts == ["Good evening.", ("Good night. " * 300).strip()]


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"json": {}}, 422, "missing_field", "text"),
        ({"json": {"text": None}}, 422, "missing_field", "text"),
        ({"json": {"text": "..."}}, 422, "invalid_input", "text"),
        ({"json": {"text": 5}}, 422, "invalid_input", "text"),
        ({"json": {"text": "a" * (MAX_CHARACTERS + 1)}}, 422, "invalid_input", "text"),
        ({"json": {"prompt": "Hello."}}, 422, "unknown_field", "prompt"),
        ({"json": {"audio": "eA=="}}, 422, "unknown_field", "audio"),
        ({"files": {"text": (None, "Hello."), "audio": ("a.wav", b"x")}}, 422, "conflicting_fields", "text"),
        ({"files": {"text": (None, "")}}, 422, "invalid_input", "text"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "body_malformed", "body"),
    ],
)
def test_what_is_no_text_is_refused_by_its_field(
    served: Served, body: dict[str, Any], status: int, code: str, field: str
) -> None:
    session = offer(served, drive="push")
    assert_problem(served.client.post(f"/stream/webrtc/{session}/speak", **body), status, code, field)
    assert served.host.live.sessions[session].texts == []


@pytest.mark.parametrize(
    ("error", "status"), [(VoiceMissingError("hibari-tts"), 501), (QueueFullError("text", "101", "at most 100"), 409)]
)
def test_a_service_without_a_voice_and_a_full_queue_say_so(served: Served, error: LiveAnchorError, status: int) -> None:
    session = offer(served, drive="push")
    served.host.live.text_failure = error
    assert_problem(served.client.post(f"/stream/webrtc/{session}/speak", json={"text": "Hello."}), status, error.code)


def test_a_microphone_s_session_and_one_that_is_not_there_take_no_text(served: Served) -> None:
    mic = offer(served, drive="mic")
    post = served.client.post
    assert_problem(post(f"/stream/webrtc/{mic}/speak", json={"text": "Hello."}), 409, "wrong_drive")
    assert_problem(post("/stream/webrtc/nobody/speak", json={"text": "Hello."}), 404, "session_not_found")
