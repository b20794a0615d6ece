"""The measuring client: stamps, flashes, clicks, onsets, mouths; and a run against a real server of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import uvicorn

from benchmarks.live import client_rtc as live_client_rtc
from benchmarks.live.click_server import ClickServer
from benchmarks.live.click_stages import clicking_voice
from benchmarks.live.client import ClientOptions, LiveClient
from benchmarks.live.client_rtc import BLOCK, SpeechTrack, onset_blocks
from benchmarks.live.mouth import openings
from benchmarks.live.rig import without_pauses
from benchmarks.live.stamped_scene import StampedScene, clicks, is_flash, read_stamp
from benchmarks.live.stamped_server import StampedServer
from pipeline.session.canvas import paste


def test_a_stamp_is_read_as_it_was_written() -> None:
    scene = StampedScene(640, 600, 25)
    for index, stamp in enumerate((0, (1 << 48) - 1, 0xA5A5_1234_F00F)):
        paste(scene.canvas, scene.picture(index, stamp))
        assert read_stamp(scene.canvas.y_plane, scene.rect.x, scene.rect.y) == stamp
        assert is_flash(scene.canvas.y_plane, scene.rect.x, scene.rect.y) == (index == 0)
    assert scene.voice(25).any() and not scene.voice(26).any() and len(scene.voice(0)) == 640


def test_clicks_are_found_once_each() -> None:
    sound = np.random.default_rng(0).normal(0, 0.005, 96_000)
    sound[10_000:10_020] = np.hanning(20) * 0.8
    sound[58_000:58_020] = -np.hanning(20) * 0.8
    assert clicks(sound) == pytest.approx([10_010, 58_010], abs=1)
    assert clicks(np.zeros(100)) == []


def test_an_onset_is_speech_after_a_pause() -> None:
    blocks = np.zeros((300, BLOCK), np.float32)
    blocks[60:80] = 0.3
    blocks[90:100] = 0.3  # 200 ms later: the same speech
    blocks[200:210] = 0.3
    assert onset_blocks(blocks) == [60, 200]
    blocks[0:2] = 0.3
    assert onset_blocks(blocks)[0] == 0


def test_a_mouth_opens_with_the_second_open_picture_in_a_row() -> None:
    values = [0.02] * 25 + [0.02, 0.2, 0.02, 0.2, 0.2, 0.2]
    kept = [(10.0 + index * 0.04, np.full((24, 16), index, np.uint8)) for index in range(len(values))]
    measured = openings(kept, [11.0, 50.0], lambda pictures: np.array(values[: len(list(pictures))], np.float32))
    assert measured[0] == pytest.approx(120.0) and measured[1] is None
    shut = openings(kept, [11.0], lambda pictures: np.full(len(list(pictures)), np.nan, np.float32))
    assert shut == [None]


def test_a_microphone_with_a_fast_clock_hands_over_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(live_client_rtc, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(live_client_rtc, "asyncio", SimpleNamespace(sleep=sleep))

    async def lasted(ppm: float) -> float:
        track, began = SpeechTrack(np.full(1600, 0.5, np.float32), 0.1, ppm), now
        for _ in range(20):
            await track.recv()
        assert len(track.onsets_at) == 1
        return now - began

    assert asyncio.run(lasted(0)) == pytest.approx(0.4)
    assert asyncio.run(lasted(500_000)) == pytest.approx(0.4 / 1.5)


@asynccontextmanager
async def serving(server: StampedServer | ClickServer) -> AsyncIterator[str]:
    config = uvicorn.Config(server.app, host="127.0.0.1", port=0, log_level="error")
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve())
    while not running.started:  # noqa: ASYNC110  # uvicorn offers nothing to wait for
        await asyncio.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        await task


@pytest.mark.parametrize("own", [True, False])
def test_a_run_against_a_server(own: bool, tmp_path: Path) -> None:
    async def body() -> None:
        scene = StampedScene(640, 600, 25)
        server = StampedServer(scene, 2000, own)
        speech = (0.3 * np.sin(np.arange(16_000) / 6)).astype(np.float32)
        async with serving(server) as url:
            options = ClientOptions(
                url,
                seconds=4.0,
                warm_s=0.5,
                speech=speech,
                speech_after_s=0.5,
                loss=0.01,
                delete=False,
            )
            report = await LiveClient(options).run()
            await server.close()
        assert report["pictures"] > 20 and report["size"] == (640, 600)
        assert 0 < report["stamp_ms"]["p50"] < 4000 and 0 < report["first_frame_ms"] < 4000
        if own:
            assert report["av_offset_ms"]["max_abs"] < 2.0
            assert server.heard_samples > 90_000

    asyncio.run(body())


def test_lips_and_voice_agree_through_a_whole_session_whose_microphone_runs_fast() -> None:
    """A picture that is late is left out, and its flash with it: a busy machine needs more sessions to show three of them."""

    async def body() -> int:
        server = ClickServer()
        async with serving(server) as url:
            options = ClientOptions(
                url, seconds=6.0, speech=clicking_voice(6.0), speech_after_s=0.5, ppm=200.0, loss=0.01, delete=False
            )
            report = await LiveClient(options).run()
            await server.close()
        assert report["stamp_ms"] is None
        offset = report["av_offset_ms"] or {"n": 0, "max_abs": 0.0}
        assert offset["max_abs"] < 5.0, "the click in the voice and the flash that it made"
        return int(offset["n"])

    shown = 0
    for _ in range(8):
        shown += asyncio.run(body())
        if shown >= 3:
            return
    raise AssertionError(f"{shown} clicks had a flash")


def test_speech_without_pauses_is_loud_throughout() -> None:
    pcm = np.concatenate([np.full(640, 0.5), np.zeros(3200), np.full(700, 0.1)]).astype(np.float32)
    loud = without_pauses(pcm)
    assert len(loud) in (640 + 320, 640 + 640) and loud.all()
