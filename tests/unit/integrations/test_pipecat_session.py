"""`LiveAnchorSession` against the real application and real live sessions, in this process; no Pipecat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from benchmarks.agents.click_service import click_service
from benchmarks.live.stamped_scene import CLICK_LEVEL, CLICK_SAMPLES, is_flash, read_stamp
from pipecat_liveanchor.errors import LiveAnchorServiceError, error_of
from pipecat_liveanchor.lockstep import Step
from pipecat_liveanchor.session import LiveAnchorSession
from tests.support.http_server import running

PLACE = 300
"""Sample of its frame at which the speech clicks."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(click_service(tmp_path_factory.mktemp("clicks"))) as port:
        yield f"http://127.0.0.1:{port}"


def clicking(seconds: float) -> bytes:
    """s16le, 16 kHz: a soft tone with a click every 0.2 s."""
    voice = 0.03 * np.sin(np.arange(round(seconds * 16_000)) / 13)
    for start in range(PLACE, len(voice), 3200):
        voice[start : start + CLICK_SAMPLES] = CLICK_LEVEL
    return (voice * 32767).astype("<i2").tobytes()


class Steps:
    """Everything that a session played and told."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.events: list[dict[str, Any]] = []
        self.lost: list[LiveAnchorServiceError] = []

    async def step(self, step: Step) -> None:
        self.steps.append(step)

    def loud(self, after: int = -1) -> list[Step]:
        return [one for one in self.steps if one.index > after and np.abs(one.pcm.astype(int)).max() > 500]

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110  # counted by the session's own task
                await asyncio.sleep(0.01)

    def names(self) -> list[str]:
        return [one["name"] for one in self.events]


def in_session(url: str, body: Callable[[LiveAnchorSession, Steps], Coroutine[Any, Any, None]], **more: Any) -> Steps:
    seen = Steps()

    async def run() -> None:
        async with aiohttp.ClientSession() as http:
            session = LiveAnchorSession(url, http, seen.step, seen.events.append, seen.lost.append, **more)
            async with session:
                await body(session, seen)

    asyncio.run(run())
    return seen


def test_pictures_come_with_their_voice_and_an_interruption_ends_both(url: str) -> None:
    async def body(session: LiveAnchorSession, seen: Steps) -> None:
        await session.push(clicking(0.5), 16_000)
        await session.end()
        await seen.until(lambda: "speaking_finished" in seen.names())
        await session.push(clicking(8.0), 16_000)
        last = seen.steps[-1].index
        await seen.until(lambda: len(seen.loud(last)) > 5)
        assert 0 < await session.interrupt() < 4
        cut = seen.steps[-1].index
        await seen.until(lambda: seen.steps[-1].index > cut + 9)
        assert not seen.loud(cut), "nothing old is heard after an interruption was answered"
        await session.push(clicking(0.3), 16_000)
        await session.end()
        await seen.until(lambda: seen.names().count("speaking_finished") == 3)
        finished = [one for one in seen.events if one["name"] == "speaking_finished"]
        assert [one["interrupted"] for one in finished] == [False, True, False]
        await seen.until(lambda: seen.steps[-1].index > session.step_of(finished[-1]))
        assert seen.loud(cut), "what is said next is heard"
        assert seen.loud()[-1].index <= session.step_of(finished[-1])
        with pytest.raises(ValueError, match="sample_rate"):
            await session.push(b"", 24_000)

    seen = in_session(url, body)
    flashes = [(step, stamp) for step in seen.steps if (stamp := stamp_of(step)) is not None]
    paired = [(step.pcm, stamp) for step, stamp in flashes if np.abs(step.pcm.astype(int)).max() > 3000]
    assert len(paired) >= 3, "of clicks that were heard some were seen"
    for pcm, stamp in paired:
        assert abs(int(np.abs(pcm.astype(int)).argmax()) / 3 - stamp) <= 8, (
            "in the same step, within half a millisecond"
        )
    assert seen.lost == []


def stamp_of(step: Step) -> int | None:
    if step.picture is None:
        return None
    one = step.picture
    green = np.frombuffer(one.rgb, np.uint8).reshape(one.height, one.width, 3)[..., 1]
    return read_stamp(green, 0, 0) if is_flash(green, 0, 0) else None


def test_what_the_server_refuses_says_whether_to_ask_again(url: str) -> None:
    async def never(session: LiveAnchorSession, seen: Steps) -> None:
        raise AssertionError("there is nobody to talk to")

    with pytest.raises(LiveAnchorServiceError) as caught:
        in_session(url, never, avatar_id="no such id!")
    assert not caught.value.retryable and caught.value.status == 422 and caught.value.code == "invalid_input"
    with pytest.raises(LiveAnchorServiceError) as caught:
        in_session("http://127.0.0.1:9", never)
    assert caught.value.retryable and caught.value.status is None and caught.value.code == "connection"


def test_problems_are_read_and_anything_else_is_quoted() -> None:
    full = error_of(503, '{"code": "no_capacity", "detail": "3 of 3 sessions"}', "7")
    assert (full.code, full.retryable, full.retry_after_s, str(full)) == (
        "no_capacity", True, 7.0, "no_capacity: 3 of 3 sessions",
    )  # fmt: skip
    assert (error_of(403, "<html>").code, error_of(403, "<html>").retryable) == ("http_403", False)
    assert "[1]" in str(error_of(400, "[1]")) and error_of(502, "", "soon").retry_after_s is None


@pytest.mark.nightly("1.6 s, most of them the first sender report")
def test_a_session_that_ends_on_the_server_is_told_once(url: str) -> None:
    async def body(session: LiveAnchorSession, seen: Steps) -> None:
        async with aiohttp.ClientSession() as http:
            async with http.delete(f"{url}/stream/webrtc/{session.session_id}") as answer:
                assert answer.status == 200
        await seen.until(lambda: seen.lost)
        await asyncio.sleep(0.05)

    seen = in_session(url, body)
    (error,) = seen.lost
    assert error.code in ("session_ended", "peer_lost") and error.retryable


def test_the_package_names_what_it_needs() -> None:
    folder = Path(__file__).parents[3] / "integrations" / "pipecat-liveanchor"
    pins = (folder / "constraints.txt").read_text()
    for name in ("pipecat-ai==1.14", "aiortc==1.16", "aiohttp=="):
        assert f"\n{name}" in f"\n{pins}"
