"""`liveanchor serve` with a cluster of its own, told to end while it works: real processes, real signals."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from serve_app.cluster.own import free_port
from tests.ray.graph import speech_wav, wait_for
from tests.support.rtc import Client, until

ROOT = Path(__file__).parents[2]
DRAIN_S = 60
START_S = 480.0
STARTS = 3
"""Ray gives a node 30 s to start, which a busy machine may not keep."""
LONG_S = 400.0
"""Seconds of speech whose video takes longer than the drain."""
COMMAND = "from serve_app.cli.app import main; main()"


class Service:
    """The command in a process of its own."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.home = home
        self._said = home / "stderr"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LIVEANCHOR_")}
        environment |= {
            "LIVEANCHOR_HOME": str(home / "data"),
            "PYTHONPATH": str(ROOT),
            "RAY_ADDRESS": "local",  # whatever other cluster runs on this machine
            "RAY_TMPDIR": str(home / "ray"),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-c", COMMAND, "serve", "--port", str(free_port()), *arguments]
        for _ in range(STARTS):
            with self._said.open("w") as said:
                self.process = subprocess.Popen(
                    command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=said, text=True
                )
            assert self.process.stdout is not None
            self.url = self.process.stdout.readline().strip()
            if self.url:
                break
        assert self.url, self.said()
        wait_for("the whole graph", lambda: httpx.get(f"{self.url}/readyz", timeout=60).status_code == 200, START_S)

    def said(self) -> str:
        return self._said.read_text()

    def told(self) -> None:
        """The handlers are set a moment after the address is printed."""
        wait_for("the command to watch", lambda: "press Ctrl-C" in self.said())
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        return self.process.wait(180)

    def video(self, seconds: float) -> str:
        files = {"audio": ("a.wav", speech_wav(seconds))}
        answer = httpx.post(f"{self.url}/v1/videos", files=files, data={"seed": "5"}, timeout=120)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def making(self, video_id: str) -> None:
        def look() -> bool:
            return bool(httpx.get(f"{self.url}/v1/videos/{video_id}", timeout=60).json()["state"] == "running")

        wait_for("the video to be under way", look)

    def row(self, video_id: str) -> tuple[str, int, int]:
        """The video as the file of the store has it, with nobody else at it."""
        with sqlite3.connect(self.home / "data" / "jobs" / "jobs.sqlite3") as database:
            [found] = database.execute("SELECT state, failures, lost FROM jobs WHERE id = ?", (video_id,)).fetchall()
        return tuple(found)


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="la-"))  # short, because Ray puts sockets below it
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.nightly("starts the service twice; what it waits for and what it refuses is tested in tests/unit")
@pytest.mark.timeout(2400)
def test_what_runs_finishes_or_is_given_back_and_viewers_are_told(home: Path) -> None:
    service = Service(home, "--drain-s", str(DRAIN_S))
    try:
        long = service.video(LONG_S)
        service.making(long)
        asyncio.run(_drained(service))
        assert service.ended() == 0, service.said()
        assert "in work: waiting" in service.said() and "videos go on after the next start" in service.said()
        assert service.row(long) == ("queued", 0, 0), "given back, which costs it nothing"

        service = Service(home)
        service.making(long)
        service.told()
        wait_for("the drain", lambda: "in work: waiting" in service.said())
        service.process.send_signal(signal.SIGINT)
        assert service.ended() == 0 and "told twice" in service.said()
        assert service.row(long)[0] == "running", "its lease runs out"
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait(60)


async def _drained(service: Service) -> None:
    """A file under way and a live session while the service is told to end."""
    async with httpx.AsyncClient(base_url=service.url, timeout=300) as http:
        client = Client()
        offer = {"sdp": await client.offer(), "drive": "push"}
        begun = (await http.post("/stream/webrtc/offer", json=offer)).raise_for_status().json()
        await client.accept(begun["sdp"])
        await until(lambda: len(client.pictures) >= 2, 180)
        following = asyncio.create_task(_events(http, begun["session_id"]))
        speech = {"audio": ("a.wav", speech_wav(1.0))}
        making = asyncio.create_task(http.post("/generate", files=speech, headers={"X-Request-Id": "file-under-way"}))
        while (await http.get("/jobs/file-under-way")).json()["state"] != "working":  # noqa: ASYNC110  # nothing tells it
            await asyncio.sleep(0.05)
        service.told()
        while (refused := await http.post("/stream/webrtc/offer", json=offer)).status_code != 503:
            assert refused.status_code == 200, refused.text
            await http.delete(refused.headers["location"])
        assert refused.json()["code"] == "draining" and int(refused.headers["retry-after"]) > 0
        assert (await http.get("/readyz")).status_code == 503
        made = await making
        assert made.status_code == 200 and made.content[4:8] == b"ftyp"
        events = await following
        assert [one for one in events if one in ("draining", "ended")] == ["draining", "ended"]
        await client.close()


async def _events(http: httpx.AsyncClient, session_id: str) -> list[str]:
    async with http.stream("GET", f"/stream/webrtc/{session_id}/events") as answer:
        return [line.removeprefix("event: ") async for line in answer.aiter_lines() if line.startswith("event: ")]
