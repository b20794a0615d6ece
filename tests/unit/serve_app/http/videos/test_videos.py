"""`/v1/videos`: accepted at once, looked after, fetched; and the same bytes as `POST /generate` gives."""

from __future__ import annotations

import asyncio
import base64
import errno
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from PIL import Image

from deployments.video_jobs.commands import AddJob
from deployments.video_jobs.job import JobFailure, JobSpec, JobState, VideoJob
from deployments.video_jobs.settings import VideoJobSettings
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.uploads import JobUploads
from pipeline.config import SessionSettings
from serve_app.http.files.fields import JobForm
from serve_app.http.videos.answers import video_answer_of
from serve_app.http.videos.fields import VideoForm
from serve_app.http.videos.routes import _added
from tests.support.http_server import Gate, Served, assert_problem, serving, small_avatar, wait_for, wav

URL = "/v1/videos"
SPEC = JobSpec(None, False, 25.0, 8)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("videos")) as one:
        yield one


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as one:
        yield one


def create(
    served: Served, audio: bytes | None = None, headers: dict[str, str] | None = None, **fields: str
) -> httpx.Response:
    files = {"audio": ("speech.wav", wav() if audio is None else audio, "audio/wav")}
    return served.client.post(URL, files=files, data=fields, headers=headers)


def ended(served: Served, video_id: str) -> dict[str, Any]:
    """The video once it has ended."""

    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = served.client.get(f"{URL}/{video_id}").json()
        return found if found["status"] in ("completed", "failed") else None

    wait_for(look)
    video = look()
    assert video is not None
    return video


def test_a_video_is_accepted_made_and_fetched(served: Served) -> None:
    answer = create(served, seed="7", metadata='{"story": "4711"}', expires_in="600")
    assert answer.status_code == 202 and answer.headers["retry-after"] == "2"
    video = answer.json()
    assert answer.headers["location"] == f"{URL}/{video['id']}"
    assert (video["object"], video["model"], video["metadata"]) == ("video", "mini", {"story": "4711"})
    assert video["status"] in ("queued", "in_progress")
    video = ended(served, video["id"])
    assert (video["status"], video["progress"], video["error"], video["place"]) == ("completed", 100, None, None)
    assert (video["seconds"], video["size"], video["frames"], video["seed"]) == ("0.4", "128x160", 10, 7)
    assert 590 <= video["expires_at"] - video["completed_at"] <= 610
    content = served.client.get(video["content_url"])
    assert content.headers["content-type"] == "video/mp4" and len(content.content) == video["size_bytes"]
    assert content.content == served.generate(seed=7).content
    assert "retry-after" not in served.client.get(answer.headers["location"]).headers


def test_json_is_the_same_video(served: Served) -> None:
    body = {"audio": base64.b64encode(wav()).decode(), "seed": 7, "metadata": {"a": "b"}, "model": "mini", "prompt": ""}
    video = ended(served, served.client.post(URL, json=body).json()["id"])
    assert video["metadata"] == {"a": "b"}
    assert served.client.get(video["content_url"]).content == served.generate(seed=7).content


def test_text_is_spoken_and_captioned(served: Served) -> None:
    body = {"prompt": "Good evening. It is cold.", "seed": 7}
    answer = served.client.post(URL, json=body)
    assert answer.status_code == 202, answer.text
    video = ended(served, answer.json()["id"])
    assert (video["status"], video["prompt"]) == ("completed", "Good evening. It is cold."), video
    direct = served.client.post("/api/generate", json=body).json()
    assert video["captions"] == direct["captions"] and video["captions"].startswith("WEBVTT")
    assert served.client.get(video["content_url"]).content == served.client.get(direct["url"]).content


def test_a_portrait_is_registered_when_the_video_is_made(own: Served) -> None:
    own.host.register = lambda data, name: small_avatar(name, 171)
    answer = own.client.post(URL, files={"audio": wav(), "portrait": b"p"})
    video = ended(own, answer.json()["id"])
    assert video["status"] == "completed" and own.host.registered == [(b"p", "")]
    assert own.host.store.used_at(video["avatar_id"]) is not None, "it is temporary"


def test_ranges_and_a_picture(served: Served) -> None:
    video = ended(served, create(served).json()["id"])
    url = video["content_url"]
    whole = served.client.get(url)
    part = served.client.get(url, headers={"Range": "bytes=10-19"})
    assert part.status_code == 206 and part.content == whole.content[10:20]
    assert_problem(served.client.get(url, headers={"Range": "bytes=99999999-"}), 416, "range_not_satisfiable")
    assert served.client.get(url, headers={"If-None-Match": whole.headers["etag"]}).status_code == 304
    assert served.client.head(url).headers["content-length"] == str(video["size_bytes"])
    picture = served.client.get(url, params={"variant": "thumbnail"})
    assert picture.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(picture.content)).size == (128, 160)
    again = served.client.get(url, params={"variant": "thumbnail"}, headers={"If-None-Match": picture.headers["etag"]})
    assert again.status_code == 304
    assert_problem(served.client.get(url, params={"variant": "spritesheet"}), 422, "invalid_input", "variant")


def test_what_waits_has_a_place_and_no_content(own: Served) -> None:
    own.jobs.resting = True
    first, second = (create(own).json() for _ in range(2))
    assert (first["place"], second["place"], second["status"], second["progress"]) == (1, 2, "queued", 0)
    early = own.client.get(f"{URL}/{second['id']}/content")
    assert_problem(early, 409, "video_not_ready", "id")
    assert int(early.headers["retry-after"]) >= 1
    own.jobs.resting = False
    third = create(own).json()
    for one in (first, second, third):
        assert ended(own, one["id"])["status"] == "completed"


def test_progress_is_seen_and_a_cancelled_video_stops(own: Served) -> None:
    gate = own.host.stages.render_gate = Gate()
    video = create(own, wav(4.0)).json()
    wait_for(lambda: own.client.get(f"{URL}/{video['id']}").json()["status"] == "in_progress")
    cancelled = own.client.post(f"{URL}/{video['id']}/cancel").json()
    assert (cancelled["status"], cancelled["state"], cancelled["error"]["code"]) == ("failed", "cancelled", "cancelled")
    assert_problem(own.client.post(f"{URL}/{video['id']}/cancel"), 409, "video_state", "id")
    assert_problem(own.client.get(f"{URL}/{video['id']}/content"), 409, "video_state", "id")
    gate.set()
    again = own.client.post(f"{URL}/{video['id']}/retry")
    assert again.status_code == 202 and again.json()["error"] is None
    assert ended(own, video["id"])["status"] == "completed"
    assert_problem(own.client.post(f"{URL}/{video['id']}/retry"), 409, "video_state", "id")


def test_what_is_not_kept_cannot_be_retried(own: Served, tmp_path: Path) -> None:
    own.jobs.resting = True
    video_id = create(own).json()["id"]
    own.client.post(f"{URL}/{video_id}/cancel")
    [upload] = (tmp_path / "uploads").iterdir()
    upload.rename(tmp_path / "away")
    found = assert_problem(own.client.post(f"{URL}/{video_id}/retry"), 409, "video_state", "id")
    assert "audio" in found["got"] and own.client.get(f"{URL}/{video_id}").json()["state"] == "cancelled"
    (tmp_path / "away").rename(upload)
    assert own.client.post(f"{URL}/{video_id}/retry").status_code == 202


def test_what_cannot_be_used_fails_with_the_answer_that_generate_gives(served: Served) -> None:
    video = ended(served, create(served, b"no sound at all").json()["id"])
    assert (video["status"], video["attempt"]) == ("failed", 1)
    refused = served.generate(b"no sound at all").json()
    problem = {name: value for name, value in video["error"]["problem"].items() if value is not None}
    assert video["error"]["code"] == refused["code"] and video["error"]["message"] == refused["detail"]
    assert problem | {"request_id": refused["request_id"]} == refused and problem["request_id"] == video["id"]


@pytest.mark.parametrize("code", ["stage_lost", "engine_run", "not_in_the_table"])
def test_a_fault_of_ours_names_nothing_inside(code: str) -> None:
    failure = JobFailure(code, "renderer at /srv/secret died")
    shown = video_answer_of(VideoJob("video_1", "", JobState.FAILED, SPEC, failure=failure), "mini")
    assert shown.error is not None and shown.error.problem is not None
    assert "secret" not in shown.model_dump_json() and shown.error.problem.status >= 500


def test_a_list_in_pages(own: Served) -> None:
    own.jobs.resting = True
    ids = [create(own, metadata=json.dumps({"n": str(n)})).json()["id"] for n in range(5)]
    newest = own.client.get(URL, params={"limit": 2}).json()
    assert [one["id"] for one in newest["data"]] == [ids[4], ids[3]] and newest["has_more"]
    assert (newest["object"], newest["first_id"], newest["last_id"]) == ("list", ids[4], ids[3])
    rest = own.client.get(URL, params={"after": ids[3]}).json()
    assert [one["id"] for one in rest["data"]] == ids[2::-1] and not rest["has_more"]
    oldest = own.client.get(URL, params={"order": "asc", "limit": "1"}).json()
    assert [one["id"] for one in oldest["data"]] == [ids[0]]
    for name, value in (("limit", "0"), ("limit", "x"), ("limit", "101"), ("order", "up"), ("after", "video_nope")):
        assert_problem(own.client.get(URL, params={name: value}), 422, "invalid_input", name)


def test_a_deleted_video_leaves_nothing(own: Served, tmp_path: Path) -> None:
    made, waiting = ended(own, create(own).json()["id"]), None
    own.jobs.resting = True
    waiting = create(own).json()
    for one in (made, waiting):
        gone = own.client.delete(f"{URL}/{one['id']}").json()
        assert gone == {"id": one["id"], "object": "video.deleted", "deleted": True}
        for method, path in (("GET", ""), ("GET", "/content"), ("GET", "/events"), ("POST", "/cancel"), ("DELETE", "")):
            assert_problem(own.client.request(method, f"{URL}/{one['id']}{path}"), 404, "video_not_found", "id")
    assert own.client.get(URL).json()["data"] == []
    assert not any((tmp_path / "results").iterdir()) and not any((tmp_path / "uploads").iterdir())


def test_a_video_whose_file_cannot_be_removed_can_be_deleted_again(own: Served, tmp_path: Path) -> None:
    address = f"{URL}/{ended(own, create(own).json()['id'])['id']}"
    [file] = (tmp_path / "results").iterdir()
    file.rename(tmp_path / "away")
    (file / "in the way").mkdir(parents=True)
    assert_problem(own.client.delete(address), 503, "store_unreachable")
    (file / "in the way").rmdir()
    file.rmdir()
    (tmp_path / "away").rename(file)
    assert own.client.delete(address).json()["deleted"] and not file.exists()


def test_a_request_that_comes_twice_makes_one_video(own: Served, tmp_path: Path) -> None:
    own.jobs.resting = True
    key = {"Idempotency-Key": '"a-key-4711"'}
    first, second = create(own, headers=key), create(own, headers={"Idempotency-Key": "a-key-4711"})
    assert first.json()["id"] == second.json()["id"] and second.status_code == 202
    assert second.headers["idempotent-replayed"] == "true" and "idempotent-replayed" not in first.headers
    assert len(list((tmp_path / "uploads").iterdir())) == 1
    assert_problem(create(own, headers=key, seed="8"), 422, "idempotency_mismatch", "Idempotency-Key")
    assert_problem(create(own, wav(0.5), headers=key), 422, "idempotency_mismatch", "Idempotency-Key")
    assert len(own.client.get(URL).json()["data"]) == 1
    assert create(own, headers={"Idempotency-Key": "another-key"}).json()["id"] != first.json()["id"]


@pytest.mark.parametrize("key", ["short", '"', "x" * 65, "with space", 'a"quote"inside'])
def test_a_key_is_a_key(served: Served, key: str) -> None:
    assert_problem(create(served, headers={"Idempotency-Key": key}), 422, "invalid_input", "Idempotency-Key")


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("metadata", "{", "invalid_input"),
        ("metadata", "[]", "invalid_input"),
        ("metadata", '{"a": 1}', "invalid_input"),
        ("metadata", json.dumps({str(n): "x" for n in range(17)}), "invalid_input"),
        ("metadata", json.dumps({"x" * 65: ""}), "invalid_input"),
        ("metadata", json.dumps({"half a character": "\ud83d"}), "invalid_input"),
        ("metadata", json.dumps({"\ude00": ""}), "invalid_input"),
        ("metadata", json.dumps({"x": "y" * 513}), "invalid_input"),
        ("expires_in", "59", "invalid_input"),
        ("expires_in", "soon", "invalid_input"),
        ("expires_in", str(31 * 24 * 3600), "invalid_input"),
        ("model", "sora-2", "invalid_input"),
        ("prompt", "Good evening.", "conflicting_fields"),
        ("fps", "30", "invalid_input"),
        ("avatar_id", "nope", "invalid_input"),
        ("avatar_id", "0" * 32, "avatar_not_found"),
    ],
)
def test_fields_are_checked_before_anything_is_accepted(served: Served, field: str, value: str, code: str) -> None:
    before = served.client.get(URL, params={"limit": 1}).json()["first_id"]
    answer = create(served, **{field: value})
    assert answer.json()["code"] == code and answer.json()["field"] == field, answer.text
    assert served.client.get(URL, params={"limit": 1}).json()["first_id"] == before


def test_only_so_many_wait(tmp_path: Path) -> None:
    with serving(tmp_path, max_waiting=2) as one:
        one.jobs.resting = True
        assert [create(one).status_code for _ in range(2)] == [202, 202]
        full = create(one)
        assert_problem(full, 503, "too_many_videos")
        assert full.headers["retry-after"] and len(list((tmp_path / "uploads").iterdir())) == 2


def test_a_store_that_is_away_takes_nothing_in(own: Served, tmp_path: Path) -> None:
    assert create(own).status_code == 202
    store = tmp_path / "jobs.sqlite3"
    ended(own, own.client.get(URL).json()["first_id"])
    store.rename(tmp_path / "away")
    for answer in (create(own), own.client.get(URL)):
        found = assert_problem(answer, 503, "jobs_unavailable")
        assert answer.headers["retry-after"] and str(tmp_path) not in json.dumps(found)
    (tmp_path / "away").rename(store)
    assert create(own).status_code == 202


def test_a_full_disk_takes_nothing_in(own: Served, tmp_path: Path) -> None:
    own.jobs.resting = True
    own.jobs.store = SqliteJobStore(tmp_path / "jobs.sqlite3", max_pages=48)
    accepted, metadata = 0, json.dumps({str(n): "x" * 512 for n in range(16)})
    while (answer := create(own, metadata=metadata)).status_code == 202:
        accepted += 1
    assert_problem(answer, 503, "jobs_unavailable")
    assert answer.headers["retry-after"] and accepted > 1
    assert len(own.client.get(URL).json()["data"]) == accepted, "what was accepted is there"
    own.jobs.store.close()
    own.jobs.store = SqliteJobStore(tmp_path / "jobs.sqlite3")
    assert create(own).status_code == 202
    own.jobs.close()


def test_a_full_disk_under_the_uploads_takes_nothing_in(
    own: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.jobs.resting = True

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        answer = create(own)
    assert_problem(answer, 503, "jobs_unavailable")
    assert own.client.get(URL).json()["data"] == [] and not list((tmp_path / "uploads").iterdir())
    assert create(own).status_code == 202


def test_a_caller_that_goes_away_takes_no_files_of_a_video_that_was_added(tmp_path: Path) -> None:
    class Silent:
        def __init__(self) -> None:
            self.asked = asyncio.Event()

        async def handle(self, command: AddJob) -> None:
            self.asked.set()
            await asyncio.Event().wait()

    async def go() -> None:
        jobs = Silent()
        services: Any = SimpleNamespace(
            uploads=JobUploads(str(tmp_path)), jobs=jobs, settings=SimpleNamespace(jobs=VideoJobSettings())
        )
        form = JobForm(b"speech", None, None, SessionSettings(), seed=0, stream=False, normalise=False)
        adding = asyncio.create_task(_added(services, VideoForm(form, {}, 60.0, ""), "", "", 0))
        await jobs.asked.wait()
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)

    asyncio.run(go())
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"speech"]


def test_events_follow_a_video_to_its_end(own: Served) -> None:
    own.jobs.resting = True
    video = create(own).json()
    with own.client.stream("GET", f"{URL}/{video['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        names, last = [], ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
                if names == ["queued"]:
                    own.jobs.resting = False
                    create(own)
            elif line.startswith("data: "):
                last = line.removeprefix("data: ")
    assert names[0] == "queued" and names[-1] == "completed"
    assert json.loads(last) == own.client.get(f"{URL}/{video['id']}").json()


def test_the_description_names_every_field(served: Served) -> None:
    spec = served.client.get("/openapi.json").json()
    operation = spec["paths"][URL]["post"]
    for content in operation["requestBody"]["content"].values():
        assert {"audio", "portrait", "avatar_id", "metadata", "expires_in", "seed"} <= set(
            content["schema"]["properties"]
        )
    assert operation["responses"]["202"]["content"]["application/json"]["schema"]["$ref"].endswith("/VideoAnswer")
