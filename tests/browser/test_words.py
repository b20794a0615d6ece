"""What the live page makes of the service's answers: words for people, in a real browser."""

from __future__ import annotations

import json
import re

from deployments.graph.errors import StageFailedError, StageLostError
from deployments.host.live_errors import (
    NoCapacityError,
    SessionEndedError,
    SessionLostError,
    SessionNotFoundError,
    WrongDriveError,
)
from engines.weights.errors import WeightsDownloadError
from pipeline.avatars.quota import AvatarsFullError
from pipeline.avatars.store import AvatarNotFoundError
from pipeline.live.contracts import EndReason
from pipeline.live.speech_queue import QueueFullError
from pipeline.voices.errors import VoiceFailedError, VoiceMissingError, VoiceUnreachableError
from pipeline.webrtc.errors import NoCommonCodecError
from serve_app.http.problems.errors import BodyTooLargeError, BusyError, UploadTooSlowError
from serve_app.http.problems.translate import problem_response
from tests.browser.cdp import Page

SESSION = "b2c6e0d4a1f84f0c9a7d5e3b1c2d4f60"
MET = (
    SessionNotFoundError(SESSION),
    SessionLostError(SESSION),
    *(SessionEndedError(SESSION, str(reason)) for reason in EndReason),
    NoCapacityError(8, 8, "as many as one host takes"),
    WrongDriveError("mic"),
    QueueFullError("speech", "601.2 s", "at most 600 s"),
    NoCommonCodecError("sdp", "no common codec", "H.264 with packetization-mode=1, and Opus"),
    AvatarNotFoundError("avatar_id", SESSION, "the id of a registered avatar"),
    AvatarsFullError("500 presenters are registered"),
    WeightsDownloadError("face", "no network"),
    BodyTooLargeError("body", "123456789 bytes", "at most 52428800 bytes"),
    UploadTooSlowError("body", "17 bytes, then nothing", "a pause of at most 30 s, 600 s for all of it"),
    BusyError("64 jobs"),
    StageLostError("session_host", 3),
    StageFailedError("renderer", "RuntimeError: CUDA error"),
    VoiceMissingError("hibari-tts"),
    VoiceUnreachableError("answered 503: busy"),
    VoiceFailedError("the server answered 400: no"),
)


def test_whatever_the_service_says_is_words_for_people(browser: Page, url: str) -> None:
    """Nothing that only programs understand: names of fields, codes, ids, routes."""
    browser.open(f"{url}live")
    answers = [problem_response(error, "r1", 5.0) for error in MET]
    given = [[one.status_code, bytes(one.body).decode()] for one in answers]
    given += [[502, "<html>Bad Gateway</html>"], [500, "null"]]
    said = browser.evaluate(
        "(async (given) => { const { call } = await import('/static/api.js'); const said = []; const real = window.fetch;"
        " for (const [status, body] of given) { window.fetch = async () => new Response(body, { status });"
        "  await call('/x').catch(({ title, text }) => said.push([title, text])); }"
        f" window.fetch = real; return said; }})({json.dumps(given)})"
    )
    assert len(said) == len(given) == len(MET) + 2
    for title, words in said:
        assert re.fullmatch(r"[A-Z].*\.", title) and re.fullmatch(r"[A-Z].*[.!]", words), (title, words)
        assert not re.search(r"[a-z]_[a-z]|[0-9a-f]{16}|[{}'\"/]|\d{6}|make a new offer", title + words), (title, words)
    assert ["The request is too large.", "Got 123.5 MB. Accepted: at most 52.4 MB."] in said
    ends = browser.evaluate("import('/static/words.js').then(({ ENDS }) => ENDS)")
    assert set(ends) == set(EndReason)
    assert {words for title, words in said if title == "The live session has ended."} == set(ends.values())
