"""Addresses that strangers name: every form that leads into the own network, redirects, rebinding, and files without an end."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from kernels.errors import InvalidInputError
from pipeline.fetch.addresses import is_allowed, is_public, networks_of
from pipeline.fetch.checked_url import UrlRefusedError, checked_url
from pipeline.fetch.fetcher import Fetcher, UrlUnreachableError
from pipeline.fetch.settings import FetchSettings
from serve_app.http.problems.errors import BusyError
from tests.support.http_server import InProcessHost, assert_problem, running, serving, small_avatar, wait_for, wav

PUBLIC = "93.184.215.14"
NOT_PUBLIC = (
    "0.0.0.0",  # noqa: S104  # nothing is bound
    "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "::7f00:1",
    "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe", "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1", "ff02::1", "2001:db8::1", "100::1",
)  # fmt: skip


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_addresses_that_are_not_public(text: str) -> None:
    assert not is_public(ip_address(text)) and not is_allowed(text, ())


@pytest.mark.parametrize("text", [PUBLIC, "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses(text: str) -> None:
    assert is_public(ip_address(text)) and is_allowed(text, ())


def test_what_the_operator_allows() -> None:
    networks = networks_of(["10.1.0.0/16", "fd00::/8"])
    assert is_allowed("10.1.2.3", networks) and is_allowed("fd00::5%eth0", networks)
    assert not is_allowed("10.2.0.1", networks) and not is_allowed("no address", networks)
    with pytest.raises(ValueError, match="networks"):
        FetchSettings(networks=("10.0.0.1/8/9",))


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "//example.com/a", "/etc/passwd", "file:///etc/passwd", "ftp://example.com/a", "gopher://example.com:70/_x",
        "data:audio/wav;base64,AAAA", "dict://127.0.0.1:11211/", "jar:http://example.com!/", "http:///a", "http://",
        "http:example.com",
        "http://user@example.com/a", "http://user:pw@example.com/a", "http://@example.com/a", "http://example.com@127.0.0.1/a",
        "http://example.com:80@127.0.0.1/", "http://127.0.0.1\\@example.com/", "http://example.com\\@127.0.0.1/",
        "http://exa mple.com/",
        "http://example.com/\r\nHost: x", "http://example.com/\x00", "http://ex\u0430mple.com/", "http://example.com:22/",
        "http://example.com:0/",
        "http://example.com:8080/", "https://example.com:80000/", "http://example.com:-1/", "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://127.1/", "http://127.0.1/", "http://1/", "http://0/",
        "http://127.0.0.1./",
        "http://[::1", "http://[::ffff:127.0.0.1]/", "http://[fe80::1%25eth0]:99/", "http://" + "a" * 3000,
    ],
)  # fmt: skip
def test_addresses_that_are_refused_unasked(url: str) -> None:
    """No name is looked up for them, and nothing of them is shown."""

    async def never(name: str, port: int) -> list[str]:
        raise AssertionError(name)

    with pytest.raises(UrlRefusedError) as found:
        asyncio.run(Fetcher(FetchSettings(), never).fetch(url, "audio_url", 1000, print))
    assert found.value.field == "audio_url" and "pw" not in str(found.value)


def test_plain_addresses_are_taken() -> None:
    for url in (
        "http://example.com",
        "https://example.com:443/a?b=c#d",
        "http://xn--exmple-cua.com/",
        "http://8.8.8.8/",
        "http://[2606:4700::1111]/",
    ):
        assert checked_url(url, "audio_url", (80, 443)).host


@pytest.mark.parametrize(
    "addresses",
    [[one] for one in ("127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1%eth0")]
    + [[PUBLIC, "10.0.0.1"], []],
)
def test_a_name_is_refused_for_any_address_that_it_has(addresses: list[str]) -> None:
    async def resolve(name: str, port: int) -> list[str]:
        assert (name, port) == ("files.example", 443)
        return addresses

    with pytest.raises(InvalidInputError) as found:
        asyncio.run(Fetcher(FetchSettings(), resolve).fetch("https://files.example/a", "audio_url", 1000, print))
    assert isinstance(found.value, UrlRefusedError if addresses else UrlUnreachableError)
    assert not any(one in str(found.value) for one in addresses), "what a name means in here is nobody's business"


def test_names_of_this_machine_are_looked_up_and_refused() -> None:
    for url in ("http://localhost/", "http://127.0.0.1/", "http://[::1]/"):
        with pytest.raises(UrlRefusedError):
            asyncio.run(Fetcher(FetchSettings()).fetch(url, "audio_url", 1000, print))


def test_names_that_are_never_found_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, found = [], threading.Event()

    def never(name: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(name)
        found.wait()
        raise OSError(name)

    async def body() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        fetcher = Fetcher(FetchSettings(), name_s=0.05)
        fetching = [
            asyncio.create_task(fetcher.fetch(f"http://n{number}.example/", "audio_url", 1000, print))
            for number in range(40)
        ]
        for refused in await asyncio.gather(*fetching, return_exceptions=True):
            assert isinstance(refused, UrlUnreachableError) and refused.field == "audio_url"
            assert "found within 0.05 s" in str(refused)
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(lambda: 5) == 5, "the loop's own threads are free"

    monkeypatch.setattr(socket, "getaddrinfo", never)
    try:
        asyncio.run(body())
    finally:
        found.set()
    assert 0 < len(asked) < 40, "nobody waits any more for those that had no thread"


class Files:
    """A server of files on this machine, and what was asked of it."""

    def __init__(self, api: FastAPI, port: int) -> None:
        self.port = port
        self.asked: list[Any] = api.state.asked
        self.lookups: list[str] = []
        self.answers: list[list[str]] = []

    async def resolve(self, name: str, port: int) -> list[str]:
        self.lookups.append(name)
        return self.answers.pop(0) if self.answers else ["127.0.0.1"]

    def fetcher(self, **settings: Any) -> Fetcher:
        given = {"networks": ("127.0.0.1/32",), "ports": (self.port,), **settings}
        return Fetcher(FetchSettings.model_validate(given), self.resolve)

    def fetch(self, path: str, max_bytes: int = 10_000, **settings: Any) -> bytes:
        self.charged = 0

        def charge(count: int) -> None:
            self.charged += count

        url = f"http://files.example:{self.port}{path}"
        return asyncio.run(self.fetcher(**settings).fetch(url, "audio_url", max_bytes, charge))


@pytest.fixture(scope="module")
def hall() -> Iterator[tuple[FastAPI, int]]:
    api = FastAPI()
    api.state.asked = []
    stop = threading.Event()

    @api.get("/file")
    async def file(request: Request) -> Response:
        api.state.asked.append(dict(request.headers) | {"path": request.url.path})
        return Response(b"RIFF" * 100)

    @api.get("/speech.wav")
    async def speech() -> Response:
        return Response(wav(0.2))

    @api.get("/to")
    async def to(where: str, status: int = 302) -> Response:
        return RedirectResponse(where, status)

    @api.get("/round")
    async def round_and_round() -> Response:
        return RedirectResponse("/round")

    @api.get("/endless")
    async def endless() -> Response:
        async def pieces() -> AsyncGenerator[bytes, None]:
            while True:
                yield b"x" * 4096
                await asyncio.sleep(0)

        return StreamingResponse(pieces())

    @api.get("/silent")
    async def silent() -> Response:
        async def pieces() -> AsyncGenerator[bytes, None]:
            yield b"x"
            while not stop.is_set():  # noqa: ASYNC110  # the client is to give up first
                await asyncio.sleep(0.05)

        return StreamingResponse(pieces())

    @api.get("/bomb")
    async def bomb() -> Response:
        return Response(gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})

    @api.get("/secret")
    async def secret() -> Response:
        return Response(b"no", 403)

    with running(api) as port:
        yield api, port
        stop.set()


@pytest.fixture
def files(hall: tuple[FastAPI, int]) -> Files:
    hall[0].state.asked.clear()
    return Files(*hall)


def test_a_file_is_fetched_by_the_address_that_was_checked(files: Files) -> None:
    assert files.fetch("/file") == b"RIFF" * 100 and files.charged == 400
    assert files.lookups == ["files.example"], "looked up once"
    [asked] = files.asked
    assert asked["host"] == f"files.example:{files.port}" and asked["accept-encoding"] == "identity"
    assert "authorization" not in asked and "cookie" not in asked


def test_a_name_that_moves_after_the_check_changes_nothing(files: Files) -> None:
    """DNS rebinding: the second answer would be an address in here."""
    files.answers = [["127.0.0.1"], ["169.254.169.254"]]
    assert files.fetch("/file") and len(files.lookups) == 1
    files.answers = [["127.0.0.1"], ["169.254.169.254"]]
    with pytest.raises(UrlRefusedError):
        files.fetch("/to?where=/file")
    assert len(files.lookups) == 3, "each redirect is looked up and checked again"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(files: Files, status: int) -> None:
    assert files.fetch(f"/to?where=/file&status={status}") == b"RIFF" * 100


@pytest.mark.parametrize(
    "where",
    [
        "http://169.254.169.254/latest/meta-data", "http://127.0.0.1/", "file:///etc/passwd", "ftp://files.example/",
        "//user@files.example/file",
        "http://2130706433/", "http://files.example:22/", "http://files.example\\@127.0.0.1/",
        "gopher://127.0.0.1:6379/_FLUSHALL",
    ],
)  # fmt: skip
def test_redirects_into_the_own_network(files: Files, where: str) -> None:
    with pytest.raises(UrlRefusedError):
        files.fetch(f"/to?where={where.replace('&', '%26')}")
    assert files.asked == []


def test_redirects_end(files: Files) -> None:
    with pytest.raises(UrlUnreachableError, match="redirects"):
        files.fetch("/round")
    assert len(files.lookups) == FetchSettings().max_redirects + 1
    with pytest.raises(UrlUnreachableError):
        files.fetch("/to?where=/file", max_redirects=0)


def test_files_are_bounded(files: Files) -> None:
    for path, most in (("/endless", 10_000), ("/file", 399), ("/bomb", 1_000_000)):
        with pytest.raises(UrlUnreachableError):
            files.fetch(path, most)
        assert files.charged <= most
    assert files.fetch("/file", 400)
    with pytest.raises(UrlUnreachableError, match="slowly"):
        files.fetch("/silent", timeout_s=0.3)
    with pytest.raises(UrlUnreachableError, match="403"):
        files.fetch("/secret")


def test_what_the_budget_says_ends_the_fetching(files: Files) -> None:
    def full(count: int) -> None:
        raise BusyError("no room")

    with pytest.raises(BusyError):
        asyncio.run(files.fetcher().fetch(f"http://files.example:{files.port}/endless", "audio_url", 10**9, full))


def test_tls_wants_the_name_s_own_certificate(files: Files) -> None:
    with pytest.raises(UrlUnreachableError):
        asyncio.run(files.fetcher().fetch(f"https://files.example:{files.port}/file", "audio_url", 1000, print))


def test_proxies_of_the_environment_are_not_asked(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert files.fetch("/file")


def test_generate_takes_audio_by_its_address(files: Files, tmp_path: Path) -> None:
    with serving(tmp_path, resolve=files.resolve, networks=("127.0.0.1/32",), ports=(files.port,)) as one:
        url = f"http://files.example:{files.port}/speech.wav"
        answer = one.client.post("/generate", files={"seed": (None, "3")}, data={"audio_url": url})
        assert answer.status_code == 200 and answer.headers["x-duration-s"] == "0.200"
        sent = one.client.post("/generate", files={"audio": wav(0.2)}, data={"seed": "3"})
        assert sent.content == answer.content
        by_json = one.client.post("/api/generate", json={"audio_url": url, "seed": 3})
        assert by_json.status_code == 200 and by_json.json()["size_bytes"] == len(answer.content)
        both = one.client.post("/generate", files={"audio": wav(0.1)}, data={"audio_url": url})
        assert_problem(both, 422, "conflicting_fields", "audio_url")
        for wrong, code in (
            ("http://127.0.0.1/", "url_refused"),
            (url.replace("speech", "none"), "url_unreachable"),
            (5, "invalid_input"),
        ):
            assert_problem(one.client.post("/generate", json={"audio_url": wrong}), 422, code, "audio_url")
        assert_problem(one.client.post("/generate", json={"audio_url": ""}), 422, "missing_field", "audio")
        unread = one.client.post("/generate", json={"audio_url": url.replace("speech.wav", "file")})
        assert_problem(unread, 422, "audio_unreadable")
        assert one.api.state.services.budget.held == 0


def test_portraits_are_taken_by_their_address(files: Files, tmp_path: Path) -> None:
    host = InProcessHost(tmp_path)
    host.register = lambda data, name: small_avatar(name, len(data) % 200)
    with serving(tmp_path, host, resolve=files.resolve, networks=("127.0.0.1/32",), ports=(files.port,)) as one:
        url = f"http://files.example:{files.port}/file"
        speech = {"audio": wav(0.1)}
        assert one.client.post("/generate", files=speech, data={"portrait_url": url}).status_code == 200
        key = {"Idempotency-Key": "one-portrait"}
        answer = one.client.post("/v1/videos", files=speech, data={"portrait_url": url}, headers=key)
        assert answer.status_code == 202
        wait_for(lambda: one.client.get(answer.headers["location"]).json()["status"] == "completed")
        assert [data for data, _ in host.registered] == [b"RIFF" * 100] * 2
        other = one.client.post("/v1/videos", files=speech, data={"portrait_url": f"{url}?2"}, headers=key)
        assert_problem(other, 422, "idempotency_mismatch")
        both = one.client.post("/v1/videos", files={**speech, "portrait": b"p"}, data={"portrait_url": url})
        assert_problem(both, 422, "conflicting_fields", "portrait")
        named = one.client.post("/generate", files=speech, data={"portrait_url": url, "avatar_id": "0" * 32})
        assert_problem(named, 422, "conflicting_fields", "portrait_url")
        asked, audio_url = len(files.lookups), f"http://files.example:{files.port}/speech.wav"
        for path in ("/generate", "/v1/videos"):
            answer = one.client.post(path, json={"audio_url": audio_url, "portrait_url": "ftp://files.example/"})
            assert_problem(answer, 422, "url_refused", "portrait_url")
        assert len(files.lookups) == asked, "the speech was not fetched in vain"
        missing = one.client.post("/v1/videos", files=speech, data={"portrait_url": url.replace("/file", "/none")})
        assert_problem(missing, 422, "url_unreachable", "portrait_url")
        assert one.api.state.services.budget.held == 0


def test_fetching_can_be_turned_off(tmp_path: Path) -> None:
    with serving(tmp_path, enabled=False) as one:
        assert_problem(
            one.client.post("/generate", json={"audio_url": "https://example.com/a.wav"}),
            422,
            "url_refused",
            "audio_url",
        )
