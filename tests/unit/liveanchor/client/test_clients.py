"""Both clients against a service on this machine: videos, files, live sessions, and every way in which it says no."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from liveanchor.client import (
    AsyncClient,
    BadArgumentError,
    Client,
    FailedError,
    NoAnswerError,
    RefusedError,
    StrangeAnswerError,
    TooLateError,
    VideoFailedError,
)
from liveanchor.client.async_client import AsyncLive, AsyncVideos
from liveanchor.client.sync_client import Live, Videos
from tests.support.both_clients import client_of_kind
from tests.support.http_server import Served, serving, small_avatar, wav
from tests.support.keys import keyed

ROOT = Path(__file__).resolve().parents[4]
SDP = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n"


def a_moment(seconds: float) -> None:
    """Waits less than the service asks for: it is on this machine."""
    threading.Event().wait(min(seconds, 0.02))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("service")) as one:
        yield one


@pytest.fixture
def served(shared: Served) -> Iterator[Served]:
    with structlog.testing.capture_logs():
        yield shared
    shared.jobs.resting = False
    shared.host.failure = None
    shared.host.live.reset()


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, served: Served) -> Iterator[Any]:
    with client_of_kind(request.param, f"http://127.0.0.1:{served.port}/", pause=a_moment) as one:
        yield one


def test_a_video_from_its_speech_to_its_file(client: Any, served: Served, tmp_path: Path) -> None:
    (tmp_path / "speech.wav").write_bytes(wav())
    speech, seen = tmp_path / "speech.wav", []
    video = client.videos.create(
        audio=speech, metadata={"story": "4711"}, seed=7, fps=50.0, idempotency_key=f"k-{tmp_path.name}"
    )
    assert (video.status, video.raw["metadata"], video.raw["fps"]) == ("queued", {"story": "4711"}, 50)
    ended = client.videos.wait(video.id, timeout_s=60, on_change=seen.append)
    assert (ended.id, ended.status, ended.progress, ended.retry_after_s) == (video.id, "completed", 100, 0)
    assert seen[-1] == ended
    client.videos.download(video.id, tmp_path / "background.mp4")
    again = client.videos.create(
        audio=wav(), metadata={"story": "4711"}, seed=7, fps=50.0, idempotency_key=f"k-{tmp_path.name}"
    )
    assert again.id == video.id
    made = client.generate(tmp_path / "held.mp4", audio=wav(), seed=7, fps=50, normalise=False, avatar_id=None)
    assert made.frames == 20 and made.captions == ""
    assert (tmp_path / "background.mp4").read_bytes() == (tmp_path / "held.mp4").read_bytes()
    client.videos.delete(video.id)
    with pytest.raises(RefusedError) as gone:
        client.videos.get(video.id)
    assert (gone.value.code, gone.value.status) == ("video_not_found", 404) and gone.value.request_id
    assert not [one for one in tmp_path.iterdir() if one.name.endswith(".part")]


def test_a_text_is_spoken_and_its_captions_come(client: Any, tmp_path: Path) -> None:
    made = client.generate(
        tmp_path / "told.mp4", text="Good evening. It is cold.", captions=True, job_id="client-captions"
    )
    assert made.captions.startswith("WEBVTT") and made.frames > 0
    assert (tmp_path / "told.mp4").read_bytes()[4:8] == b"ftyp"
    assert client.progress("client-captions").state == "unknown"


def test_videos_are_stopped_repeated_and_listed_by_the_page(client: Any, served: Served) -> None:
    served.jobs.resting = True
    first, second, third = (client.videos.create(text=f"Story {number}.") for number in range(3))
    page = client.videos.list(2)
    assert [one.id for one in page.videos] == [third.id, second.id] and page.has_more
    assert first.id in [one.id for one in client.videos.list(100, after=second.id).videos]
    assert client.videos.list(1, oldest_first=True).videos[0].id != third.id
    assert client.videos.cancel(first.id).state == "cancelled"
    with pytest.raises(VideoFailedError) as failed:
        client.videos.wait(first.id)
    assert (failed.value.code, failed.value.message) == ("cancelled", "the video was cancelled")
    with pytest.raises(RefusedError) as early:
        client.videos.download(second.id, Path("never.mp4"))
    assert (early.value.code, early.value.status) == ("video_not_ready", 409) and early.value.retry_after_s
    with pytest.raises(TooLateError):
        client.videos.wait(second.id, timeout_s=0)
    assert client.videos.retry(first.id).state == "queued"
    for video in (first, second, third):
        client.videos.delete(video.id)


def test_what_cannot_be_spoken_is_told_with_its_code(client: Any) -> None:
    video = client.videos.create(audio=b"no sound at all, but long enough to be looked at")
    with pytest.raises(VideoFailedError) as failed:
        client.videos.wait(video.id, timeout_s=60)
    assert failed.value.code == "audio_unreadable" and failed.value.message.startswith("audio: ")


def test_a_live_session_from_offer_to_end(client: Any, served: Served) -> None:
    session = client.live.offer(SDP, drive="push", fps=50, avatar_id=None)
    assert (session.sdp, session.fps, session.width) == ("v=0 answer", 50, 512)
    assert session.audio_url == f"/stream/webrtc/{session.session_id}/audio"
    assert client.live.ice_servers() == []
    assert client.live.speak(session.session_id, audio=wav(0.5)).duration_s == 0.5
    text = client.live.speak(session.session_id, text="Good evening.")
    assert (text.duration_s, text.queued_s) == (None, 0.5)
    assert client.live.interrupt(session.session_id).position_s == 1.25
    assert client.live.stats(session.session_id)["epoch"] == 1
    client.live.close(session.session_id)
    with pytest.raises(RefusedError) as over:
        client.live.close(session.session_id)
    assert (over.value.code, over.value.status) == ("session_ended", 410)
    served.host.live.capacity = 0
    with pytest.raises(FailedError) as full:
        client.live.offer(SDP)
    assert full.value.code == "no_capacity" and full.value.retry_after_s


def test_refusals_name_the_field(client: Any, tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as refused:
        client.generate(tmp_path / "x.mp4", audio=wav(), fps=30)
    assert (refused.value.code, refused.value.param, refused.value.status) == ("invalid_input", "fps", 422)
    assert refused.value.problem["allowed"] == "25, 50, 59.94" and list(tmp_path.iterdir()) == []
    for give in ({}, {"audio": wav(), "text": "both"}):
        with pytest.raises(BadArgumentError, match="one of audio and text"):
            client.videos.create(**give)
    for video_id in ("", "..", "a/b", "video 1", "vidéo", "x?y"):
        with pytest.raises(BadArgumentError, match="video_id"):
            client.videos.get(video_id)


def test_a_presenter_comes_and_goes(client: Any, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.host, "register", lambda data, name: small_avatar(name, int(data)))
    made = client.register(b"77", name="Anna", consent="Anna agreed.")
    assert made in client.presenters() and made.name == "Anna"
    stated = served.client.get(f"/avatars/{made.avatar_id}/consent").json()["consents"]
    assert [one["statement"] for one in stated] == ["Anna agreed."]
    client.remove_presenter(made.avatar_id)
    assert made not in client.presenters()
    with pytest.raises(RefusedError) as gone:
        client.remove_presenter(made.avatar_id)
    assert (gone.value.code, gone.value.status) == ("avatar_not_found", 404)
    with pytest.raises(BadArgumentError, match="avatar_id"):
        client.remove_presenter("../etc")


def test_who_is_there(client: Any, served: Served) -> None:
    client.ready()
    assert client.version()
    assert served.host.default.avatar_id in [one.avatar_id for one in client.presenters()]
    served.host.is_ready = False
    try:
        with pytest.raises(FailedError) as waiting:
            client.ready()
    finally:
        served.host.is_ready = True
    assert waiting.value.code == "not_ready"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_keys_are_shown_and_never_told(kind: str, tmp_path: Path) -> None:
    with keyed(tmp_path) as service, structlog.testing.capture_logs():
        url = str(service.served.client.base_url)
        _, text = service.key("generate")
        with client_of_kind(kind, url, text) as client:
            assert client.videos.list().videos == ()
            with pytest.raises(RefusedError) as scope:
                client.live.offer(SDP)
            assert (scope.value.status, scope.value.problem["missing_scope"]) == (403, "live")
        with client_of_kind(kind, url, text[:-1] + "x") as client, pytest.raises(RefusedError) as wrong:
            client.videos.list()
        assert wrong.value.status == 401
        shown = f"{scope.value!r} {wrong.value!r} {vars(wrong.value)} {Client(url, text)!r}"
        assert text[8:] not in shown and text[8:-1] not in shown
    with pytest.raises(BadArgumentError) as bad:
        Client("http://127.0.0.1", "la_live_ü")
    assert (bad.value.param, "ü" in str(bad.value)) == ("api_key", False)
    with pytest.raises(BadArgumentError, match="url"):
        Client("faces.example.org")


class Script:
    """A service that answers what it is told to, one after the other; the last answer again and again."""

    def __init__(self, *answers: httpx.Response | httpx.HTTPError) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    def client(self, pauses: list[float] | None = None, clock: Callable[[], float] = lambda: 0.0) -> Client:
        http = httpx.Client(transport=httpx.MockTransport(self))
        return Client("http://service", http=http, clock=clock, pause=(pauses if pauses is not None else []).append)


def video(status: str, retry_after: str = "") -> httpx.Response:
    shown = {"id": "v1", "status": status, "state": status, "progress": 0, "place": None, "error": None}
    return httpx.Response(200, json=shown, headers={"Retry-After": retry_after} if retry_after else {})


def away(status: int, retry_after: str = "4") -> httpx.Response:
    headers = {"content-type": "application/problem+json", "Retry-After": retry_after}
    return httpx.Response(status, content=b'{"code": "jobs_unavailable", "detail": "away"}', headers=headers)


def test_waiting_asks_when_the_service_says_and_outlasts_its_restart() -> None:
    pauses: list[float] = []
    script = Script(
        video("queued", "2"), video("in_progress", "7"), httpx.ConnectError("refused"), away(503),
        httpx.Response(502, text="bad gateway"), httpx.RemoteProtocolError("cut"), video("completed"),
    )  # fmt: skip
    assert script.client(pauses).videos.wait("v1").status == "completed"
    assert pauses == [2, 7, 2, 4, 2, 2]


@pytest.mark.parametrize(
    "answer", [away(500), away(404), httpx.Response(404, text="nginx"), httpx.Response(200, text="hello")]
)
def test_waiting_ends_where_asking_again_is_no_use(answer: httpx.Response) -> None:
    script = Script(video("queued"), answer)
    with pytest.raises((RefusedError, FailedError, StrangeAnswerError)):
        script.client().videos.wait("v1")
    assert len(script.asked) == 2


def test_waiting_ends_in_time() -> None:
    now, pauses = [0.0], []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    http = httpx.Client(transport=httpx.MockTransport(Script(video("in_progress", "4"))))
    client = Client("http://service", http=http, clock=lambda: now[0], pause=pause)
    with pytest.raises(TooLateError, match="v1 has not ended in time; the last answer was in_progress"):
        client.videos.wait("v1", timeout_s=10)
    assert pauses == [4, 4, 2]


def test_a_file_that_breaks_off_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "talk.mp4").write_bytes(b"from before")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise httpx.ReadError("cut")

    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=pieces(), headers={"content-type": "video/mp4", "x-frames": "9"})

    client = Client("http://service", http=httpx.Client(transport=httpx.MockTransport(handle)))
    with pytest.raises(NoAnswerError) as cut:
        client.generate(tmp_path / "talk.mp4", audio=b"x")
    assert cut.value.reached and cut.value.code == "connection_broken"
    assert [one.name for one in tmp_path.iterdir()] == ["talk.mp4"]
    assert (tmp_path / "talk.mp4").read_bytes() == b"from before"


def test_the_key_goes_to_no_address_that_an_answer_names(tmp_path: Path) -> None:
    facts = {"url": "@elsewhere.example/x", "frames": 1, "captions": "WEBVTT"}
    script = Script(httpx.Response(200, json=facts))
    with pytest.raises(StrangeAnswerError):
        script.client().generate(tmp_path / "x.mp4", text="a", captions=True)
    assert len(script.asked) == 1


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_link_into_a_store_is_followed_once_and_without_the_key(kind: str, tmp_path: Path) -> None:
    link = "https://store.example/videos/v1.mp4?X-Amz-Signature=5"
    led = httpx.Response(307, headers={"location": link})
    script = Script(led, httpx.Response(200, content=b"mp4", headers={"content-type": "video/mp4"}), led)
    with client_of_kind(kind, "http://service", "the-key", answers=script) as client:
        client.videos.download("v1", tmp_path / "talk.mp4")
        assert (tmp_path / "talk.mp4").read_bytes() == b"mp4"
        asked, stored = script.asked
        assert (stored.method, str(stored.url)) == ("GET", link)
        assert asked.headers["authorization"] == "Bearer the-key" and "authorization" not in stored.headers
        for location in (link, "ftp://store.example/x", "http://[", ""):
            script.answers = [httpx.Response(307, headers={"location": location} if location else {})]
            with pytest.raises(StrangeAnswerError):
                client.videos.download("v1", tmp_path / "never.mp4")
        script.answers = [led, httpx.Response(403, text="expired")]
        with pytest.raises(StrangeAnswerError, match="403"):
            client.videos.download("v1", tmp_path / "never.mp4")
    assert [one.name for one in tmp_path.iterdir()] == ["talk.mp4"]


def test_nobody_there() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(NoAnswerError) as away_now:
        client.version()
    assert (away_now.value.code, away_now.value.reached) == ("unreachable", False)


def test_what_the_document_shows_works(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "speech.wav").write_bytes(wav())
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "client.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(shown) == 2
    for block in shown:
        exec(block.replace("127.0.0.1:8000", f"127.0.0.1:{served.port}"), {})  # noqa: S102  # our own document
    assert (tmp_path / "talk.mp4").read_bytes()[4:8] == b"ftyp"
    assert list(served.host.live.ended.values()) == ["deleted"]


@pytest.mark.parametrize(("plain", "twin"), [(Client, AsyncClient), (Videos, AsyncVideos), (Live, AsyncLive)])
def test_both_clients_have_the_same_methods(plain: type, twin: type) -> None:
    def shape(kind: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(one).parameters) for name, one in methods if not name.startswith("_")}

    assert shape(plain) == shape(twin) and shape(plain)


def test_the_client_imports_httpx_and_nothing_of_the_service() -> None:
    code = (
        "import sys, liveanchor.client\n"
        "ours = {'kernels', 'engines', 'pipeline', 'deployments', 'serve_app'} | {'numpy', 'torch', 'ray', 'pydantic'}\n"
        "print(sorted(ours & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
