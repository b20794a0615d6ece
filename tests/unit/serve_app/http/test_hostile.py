"""Every hostile request gets its own 4xx that names the field; memory stays bounded; the next good job works."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.config import SessionHostSettings
from deployments.limits import LimitSettings
from pipeline.config import EncoderSettings
from pipeline.mini.registration import register_bytes
from tests.support.hostile_media import BAD_AUDIO, BAD_PICTURES, MIB, ODD_AUDIO
from tests.support.http_server import InProcessHost, NoFaces, Served, assert_problem, head_of, serving, wait_for, wav

MAX_UPLOAD = 2 * MIB
MAX_GROWTH_MIB = 150
PNG = BAD_PICTURES["no face"][0]
GOOD = wav(0.08)
GOOD64 = base64.b64encode(GOOD).decode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    settings = SessionHostSettings(
        encoder=EncoderSettings(prefer="x264", file_preset="ultrafast"),
        limits=LimitSettings(
            max_audio_s=5.0,
            max_upload_bytes=MAX_UPLOAD,
            max_portrait_bytes=600_000,
            max_portrait_pixels=20_000_000,
        ),
    )
    host = InProcessHost(folder, settings)
    portraits = settings.limits.of_portraits()
    host.register = lambda data, name: register_bytes(data, NoFaces(), name, portraits)  # type: ignore[arg-type]
    with serving(folder, host, max_upload_bytes=MAX_UPLOAD, max_json_bytes=MIB, max_buffered_bytes=4 * MIB) as one:
        _reset_peak()
        before = _peak_mib()
        yield one
        assert _peak_mib() - before < MAX_GROWTH_MIB, "memory stays bounded over the whole corpus"


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


@pytest.fixture(autouse=True)
def _the_next_good_job_works(served: Served) -> Iterator[None]:
    yield
    assert served.generate(GOOD).status_code == 200
    services = served.api.state.services
    wait_for(lambda: services.gate.active == 0 and services.budget.held == 0)


@pytest.mark.parametrize("name", BAD_AUDIO)
def test_audio(served: Served, name: str) -> None:
    data, code = BAD_AUDIO[name]
    found = assert_problem(served.generate(data), 422, code or None, "audio")
    assert found["code"].startswith("audio_")


@pytest.mark.parametrize("name", ODD_AUDIO)
def test_odd_audio_is_audio(served: Served, name: str) -> None:
    answer = served.generate(ODD_AUDIO[name])
    assert answer.status_code == 200 and answer.content[4:8] == b"ftyp"


@pytest.mark.parametrize("name", BAD_PICTURES)
def test_portraits(served: Served, name: str) -> None:
    data, code = BAD_PICTURES[name]
    status = 413 if code == "portrait_too_large" else 422
    files = {"audio": ("a.wav", GOOD), "portrait": ("face.jpg", data, "image/jpeg")}
    found = assert_problem(served.client.post("/generate", files=files), status, code or None, "portrait")
    assert found["code"].startswith("portrait_")
    assert_problem(served.client.post("/avatars", files={"file": ("face.jpg", data)}), status, found["code"], "file")


FIELDS: list[tuple[str, str, str]] = [
    ("fps", "30", "invalid_input"),
    ("fps", "0", "invalid_input"),
    ("fps", "-25", "invalid_input"),
    ("fps", "25.5", "invalid_input"),
    ("fps", "1e400", "invalid_input"),
    ("fps", "2５", "invalid_input"),
    ("fps", "", "invalid_input"),
    ("fps", "NaN", "invalid_input"),
    ("fps", "2 5", "invalid_input"),
    ("fps", "25\x00", "invalid_input"),
    ("fps", "9" * 500, "invalid_input"),
    ("fps", "9" * 5000, "field_too_large"),
    ("chunk_frames", "5", "invalid_input"),
    ("chunk_frames", "1e1", "invalid_input"),
    ("chunk_frames", "0x8", "invalid_input"),
    ("chunk_frames", "[8]", "invalid_input"),
    ("seed", "-1", "invalid_input"),
    ("seed", str(2**63), "invalid_input"),
    ("seed", "1_000", "invalid_input"),
    ("seed", "١٢", "invalid_input"),
    ("seed", "null", "invalid_input"),
    ("stream", "maybe", "invalid_input"),
    ("stream", "2", "invalid_input"),
    ("avatar_id", "../../etc/passwd", "invalid_input"),
    ("avatar_id", "..%2f..%2fetc", "invalid_input"),
    ("avatar_id", "/abs", "invalid_input"),
    ("avatar_id", "A" * 32, "invalid_input"),
    ("avatar_id", "0" * 33, "invalid_input"),
    ("avatar_id", "\x00" * 32, "invalid_input"),
    ("avatar_id", "💥" * 8, "invalid_input"),
    ("avatar_id", "'; DROP TABLE avatars;--", "invalid_input"),
    ("avatar_id", "x" * 100_000, "field_too_large"),
    ("avatar_id", "0" * 32, "avatar_not_found"),
    ("fsp", "25", "unknown_field"),
    ("__proto__", "1", "unknown_field"),
    ("audio[]", "1", "unknown_field"),
    ("名前", "1", "unknown_field"),
    ("", "1", "unknown_field"),
    ("x" * 300, "1", "unknown_field"),
]


@pytest.mark.parametrize(("field", "value", "code"), FIELDS, ids=lambda v: repr(v)[:30])
@pytest.mark.parametrize("path", ["/generate", "/api/generate"])
def test_fields(served: Served, path: str, field: str, value: str, code: str) -> None:
    status = {"avatar_not_found": 404, "field_too_large": 413}.get(code, 422)
    answer = served.client.post(path, files={"audio": ("a.wav", GOOD)}, data={field: value})
    found = assert_problem(answer, status, code)
    assert found["field"] == (field if len(field) < 200 else found["field"])
    assert len(answer.content) < 2000, "what came is not echoed at length"


@pytest.mark.parametrize("path", ["/generate", "/api/generate", "/avatars"])
def test_fields_in_the_address_are_not_overlooked(served: Served, path: str) -> None:
    name = "name" if path == "/avatars" else "fps"
    answer = served.client.post(path, params={name: "50"}, files={"audio": ("a.wav", GOOD)})
    assert_problem(answer, 422, "misplaced_field", name)
    assert served.client.post("/generate?via=menu", files={"audio": ("a.wav", GOOD)}).status_code == 200


JSON_FIELDS: list[tuple[str, Any, str]] = [
    ("fps", "25", "ok"),
    ("fps", 25.0, "ok"),
    ("fps", 25.5, "invalid_input"),
    ("fps", True, "invalid_input"),
    ("fps", [25], "invalid_input"),
    ("fps", {"value": 25}, "invalid_input"),
    ("fps", 10**30, "invalid_input"),
    ("chunk_frames", -8, "invalid_input"),
    ("seed", 1.5, "invalid_input"),
    ("seed", -1, "invalid_input"),
    ("chunk_frames", 8.0, "ok"),
    ("seed", "7.0", "ok"),
    ("stream", 2, "invalid_input"),
    ("stream", 0.0, "ok"),
    ("stream", "perhaps", "invalid_input"),
    ("avatar_id", 7, "invalid_input"),
    ("avatar_id", ["a"], "invalid_input"),
    ("avatar_id", "\ud800", "invalid_input"),
    ("audio", 5, "body_malformed"),
    ("audio", {"data": "x"}, "body_malformed"),
    ("audio", "not base64!", "body_malformed"),
    ("audio", "QUJD\n", "body_malformed"),
    ("audio", "data:audio/wav,plain", "body_malformed"),
    ("audio", "https://example.org/a.wav", "body_malformed"),
    ("audio", "", "audio_empty"),
    ("audio", "QUJD", "audio_unreadable"),
    ("audio", None, "missing_field"),
    ("portrait", True, "body_malformed"),
    ("portrait", "QUJD", "portrait_unreadable"),
    ("callback_url", "http://127.0.0.1/", "unknown_field"),
]


@pytest.mark.parametrize(("field", "value", "code"), JSON_FIELDS, ids=lambda v: repr(v)[:30])
def test_json_fields(served: Served, field: str, value: Any, code: str) -> None:
    body = json.dumps({"audio": GOOD64} | {field: value})
    answer = served.client.post("/api/generate", content=body, headers={"Content-Type": "application/json"})
    if code == "ok":
        assert answer.status_code == 200
        return
    assert_problem(answer, 400 if code == "body_malformed" else 422, code, field)


JSON_BODIES: dict[str, tuple[bytes, int, str]] = {
    "nothing": (b"", 400, "body_malformed"),
    "no json": (b"audio=1", 400, "body_malformed"),
    "cut short": (b'{"audio": "QUJ', 400, "body_malformed"),
    "a list": (b"[]", 400, "body_malformed"),
    "a number": (b"1", 400, "body_malformed"),
    "null": (b"null", 400, "body_malformed"),
    "nan": (b'{"audio": "QUJD", "seed": NaN}', 400, "body_malformed"),
    "utf-16": ('{"audio": "QUJD"}'.encode("utf-16"), 400, "body_malformed"),
    "no utf-8": (b'{"audio": "\xff\xfe"}', 400, "body_malformed"),
    "nested": (b'{"audio":' + b"[" * 100_000, 400, "body_malformed"),
    "a number without end": (b'{"audio": "QUJD", "seed": ' + b"9" * 10_000 + b"}", 400, "body_malformed"),
    "a key twice": (b'{"audio": "QUJD", "fps": 25, "fps": 50}', 422, "duplicate_field"),
    "too large": (b'{"audio": "' + b"A" * MIB + b'"}', 413, "body_too_large"),
    "an empty object": (b"{}", 422, "missing_field"),
}


@pytest.mark.parametrize("name", JSON_BODIES)
def test_json_bodies(served: Served, name: str) -> None:
    body, status, code = JSON_BODIES[name]
    answer = served.client.post("/generate", content=body, headers={"Content-Type": "application/json"})
    assert_problem(answer, status, code)


def part(name: str, value: bytes, extra: str = "", headers: str = "") -> bytes:
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n{headers}\r\n'.encode() + value + b"\r\n"


END = b"--b--\r\n"
AUDIO = part("audio", GOOD, '; filename="a.wav"')
FORMS: dict[str, tuple[bytes, int, str, str]] = {
    "nothing": (b"", 400, "body_malformed", "body"),
    "no boundary inside": (b"hello", 400, "body_malformed", "body"),
    "no parts": (END, 422, "missing_field", "audio"),
    "no end": (AUDIO, 400, "body_malformed", "body"),
    "cut inside the file": (AUDIO[: len(AUDIO) // 2], 400, "body_malformed", "body"),
    "cut inside a header": (AUDIO + b'--b\r\nContent-Dispos', 400, "body_malformed", "body"),
    "cut at the last boundary": (AUDIO + b"--b-", 400, "body_malformed", "body"),
    "without audio": (part("fps", b"25") + END, 422, "missing_field", "audio"),
    "audio twice": (AUDIO + AUDIO + END, 422, "duplicate_field", "audio"),
    "fps twice": (AUDIO + part("fps", b"25") + part("fps", b"50") + END, 422, "duplicate_field", "fps"),
    "avatar and portrait": (
        AUDIO + part("avatar_id", b"0" * 32) + part("portrait", PNG, '; filename="p.png"') + END, 422, "conflicting_fields",
        "portrait",
    ),
    "a file where text belongs": (AUDIO + part("fps", b"25", '; filename="25.txt"') + END, 400, "body_malformed", "fps"),
    "latin-1 text": (AUDIO + part("avatar_id", b"\xe9\xe8") + END, 400, "body_malformed", "avatar_id"),
    "no disposition": (b"--b\r\nX: y\r\n\r\n1\r\n" + END, 400, "body_malformed", "body"),
    "an attachment": (b'--b\r\nContent-Disposition: attachment; name="audio"\r\n\r\n1\r\n' + END, 400, "body_malformed", "body"),
    "no name": (b"--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n" + END, 400, "body_malformed", "body"),
    "a huge name": (part("n" * 10_000, b"1") + END, 400, "body_malformed", "body"),
    "a huge header": (part("fps", b"25", headers=f"X: {'y' * 100_000}\r\n") + END, 400, "body_malformed", "body"),
    "many headers": (part("fps", b"25", headers="X: y\r\n" * 1000) + END, 400, "body_malformed", "body"),
    "a header with no colon": (b"--b\r\nnonsense\r\n\r\n1\r\n" + END, 400, "body_malformed", "body"),
    "base64 parts": (
        part("audio", b"QUJD", headers="Content-Transfer-Encoding: base64\r\n") + END, 400, "body_malformed", "audio",
    ),
    "ten thousand parts": (b"".join(part(f"f{i}", b"1") for i in range(10_000)) + END, 422, "unknown_field", "f0"),
    "a text of a megabyte": (AUDIO + part("seed", b"1" * MIB) + END, 413, "field_too_large", "seed"),
    "a name where the file belongs": (part("audio", b"speech.wav") + END, 422, "missing_field", "audio"),
    "a path where the file belongs": (AUDIO + part("portrait", b"/tmp/me 1.png\n") + END, 422, "missing_field", "portrait"),
    "a sentence where the file belongs": (part("audio", b"Good evening.") + END, 422, "audio_unreadable", "audio"),
    "a file with its name in it": (part("audio", b"speech.wav", '; filename="a.wav"') + END, 422, "audio_unreadable", "audio"),
    "a body larger than allowed": (part("audio", b"\0" * MAX_UPLOAD) + END, 413, "body_too_large", "body"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms(served: Served, name: str) -> None:
    body, status, code, field = FORMS[name]
    answer = served.client.post("/generate", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert_problem(answer, status, code, field)


def test_a_forgotten_at_sign_is_answered_with_one(served: Served) -> None:
    form = part("audio", b"speech.wav") + END
    answer = served.client.post("/generate", content=form, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert answer.json()["detail"] == "audio: got 10 bytes of text and no file (allowed: a file; curl: -F audio=@FILE)"
    answer = served.client.post("/generate", json={"audio": "talks/speech.wav"})
    assert "the name of a file, not its content" in answer.json()["detail"] and answer.status_code == 400


def test_a_body_without_announced_length_is_bounded_too(served: Served) -> None:
    def pieces() -> Iterator[bytes]:
        yield part("audio", b"")[:-2]
        for _ in range(64):
            yield b"\0" * 65_536

    answer = served.client.post(
        "/generate", content=pieces(), headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert_problem(answer, 413, "body_too_large", "body")


CONTENT_TYPES = {
    "": 415,
    "text/plain": 415,
    "application/x-www-form-urlencoded": 415,
    "audio/wav": 415,
    "multipart/mixed; boundary=b": 415,
    "application/json-patch+json": 415,
    "multipart/form-data": 400,
    "multipart/form-data; boundary=": 400,
    f"multipart/form-data; boundary={'b' * 300}": 400,
    "multipart/form-data; boundary=other": 400,
}


@pytest.mark.parametrize("kind", CONTENT_TYPES, ids=lambda kind: kind[:40] or "none")
def test_content_types(served: Served, kind: str) -> None:
    for path in ("/generate", "/api/generate", "/avatars"):
        answer = served.client.post(path, content=AUDIO + END, headers={"Content-Type": kind} if kind else {})
        found = assert_problem(answer, CONTENT_TYPES[kind])
        assert found["field"] in ("Content-Type", "body")


NAMES = [
    "../../../etc/passwd",
    "C:\\Windows\\x.wav",
    "a" * 1500,
    "\u202egpj.exe",
    "💥.wav",
    "<script>.wav",
    "a;b=c.wav",
    "nul\x01.wav",
    "-rf.wav",
]


@pytest.mark.parametrize("filename", NAMES, ids=lambda name: repr(name)[:24])
def test_names_of_files_mean_nothing(served: Served, filename: str) -> None:
    body = part("audio", GOOD, f'; filename="{filename}"') + END
    answer = served.client.post("/generate", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == 'inline; filename="liveanchor.mp4"'


RAW = {
    "a length that is no number": b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
    "a negative length": b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "chunks that lie": b"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("name", RAW)
def test_broken_http_is_the_servers_400(served: Served, name: str) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(RAW[name])
        assert connection.recv(100).startswith(b"HTTP/1.1 4")


def test_a_huge_announced_length_is_refused_before_a_byte_is_read(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(head_of(999_999_999_999))
        answer = connection.recv(4000)
    assert answer.startswith(b"HTTP/1.1 413") and b"body_too_large" in answer


def test_the_corpus_is_large() -> None:
    refused = (
        len(BAD_AUDIO) + 2 * len(BAD_PICTURES) + 2 * len(FIELDS) + len(JSON_FIELDS) + len(JSON_BODIES) + len(FORMS)
    )
    assert refused + 3 * len(CONTENT_TYPES) >= 200
