"""The Pipecat package in Pipecat's own environment: a whole pipeline, and the example of `docs/agents.md` as it is written."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from benchmarks.agents.environment import environment_python, variables
from benchmarks.agents.pipecat import PACKAGE, click_service, measured
from serve_app.cluster.own import free_port
from tests.support.rtc import Client, until
from tests.support.speech_api import speech_api, tone_bytes
from tests.unit.test_docs import ROOT, blocks

pytestmark = [
    pytest.mark.nightly("installs Pipecat, 800 MB, at the first run; `make pipecat` runs it"),
    pytest.mark.timeout(1200),
]


DEAD = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with click_service() as url:
        yield url


def test_speech_is_seen_and_heard_in_step_and_an_interruption_ends_both(url: str) -> None:
    found = measured(url, 2)
    assert found["stops"] == 3, "the end of each sentence passes, that of interrupted speech does not"
    assert len(found["offset_ms"]) >= 6
    assert abs(float(np.median(found["offset_ms"]))) <= 40
    left_ms = 5000.0
    assert max(found["sound_tail_ms"]) < left_ms / 2 and max(found["picture_tail_ms"]) < left_ms / 2


def test_without_a_presenter_the_voice_goes_on_and_the_pipeline_is_told(url: str) -> None:
    for address, *avatar, said, usable in ((DEAD, "connection", True), (url, "no such id!", "invalid_input", False)):
        script = ROOT / "integrations" / PACKAGE / "tests" / "without_presenter.py"
        command = [str(environment_python(PACKAGE)), str(script), str(address), *map(str, avatar)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=variables())
        assert done.returncode == 0, done.stderr[-2000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["samples"] == 41_600, "all of it, once"
        (error,) = found["errors"]
        assert error.startswith(f"{said}: ") and found["usable"] is usable


def test_the_example_runs_as_it_is_written(url: str, tmp_path: Path) -> None:
    (block, *_) = [one for one in blocks(ROOT / "docs" / "agents.md", "python") if "pipecat" in one]
    assert len(block.splitlines()) < 40
    (tmp_path / "agent.py").write_text(block)
    port = free_port()
    with speech_api() as speech:
        speech.body = tone_bytes(2.0)
        settings = {"SPEECH_URL": speech.url, "SPEECH_KEY": "none", "LIVEANCHOR_URL": url, "PORT": str(port)}
        command = [str(environment_python(PACKAGE)), str(tmp_path / "agent.py")]
        log = (tmp_path / "agent.log").open("wb")  # a pipe that is not read would stop it: it tells much
        with log, subprocess.Popen(command, env=variables() | settings, stdout=log, stderr=log) as agent:
            try:
                asyncio.run(_listen(f"http://127.0.0.1:{port}/api/offer"))
            finally:
                agent.kill()
        assert [body["input"] for body, _ in speech.asked] == ["Good evening. How may I help you?"]


async def _listen(offer_url: str) -> None:
    client = Client(audio_first=True)  # Pipecat's transport takes the first section for the voice
    client.channel("chat")
    offer = {"sdp": await client.offer(), "type": "offer"}
    async with httpx.AsyncClient(timeout=30) as http:
        answer = await _patiently(http, offer_url, offer)
    await client.accept(answer["sdp"])
    try:
        await until(
            lambda: len(client.pictures) > 10 and any(np.abs(one.to_ndarray()).max() > 500 for one in client.sound)
        )
        assert (client.pictures[-1].width, client.pictures[-1].height) == (512, 512)
    finally:
        await client.close()


async def _patiently(http: httpx.AsyncClient, url: str, body: dict[str, str]) -> dict[str, str]:
    """Ask until the agent listens; it imports Pipecat first."""
    deadline = time.monotonic() + 120
    while True:
        try:
            answer: dict[str, str] = (await http.post(url, json=body)).raise_for_status().json()
            return answer
        except httpx.ConnectError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
