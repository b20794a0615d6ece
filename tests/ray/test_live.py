"""Live sessions through the whole graph: real proxy, real stages, aiortc as the client."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from ray import serve
from websockets.asyncio.client import connect

from deployments.host.live_commands import Interrupt, ReadStats
from pipeline.avatars.store import AvatarStore, avatars_dir
from pipeline.mini.registration import make_avatar
from serve_app.config.declare import APP_NAME
from serve_app.http.live.ray_host import RayLiveHost
from tests.ray import disk
from tests.ray.graph import JOB_S, STAGES, Graph, speech_wav, wait_for
from tests.support.faces import presenter
from tests.support.http_server import assert_problem
from tests.support.rtc import Client, Tone, until

WAIT_S = 300.0
"""For what takes a moment on a quiet machine; a passing test does not wait."""


@pytest.fixture(autouse=True)
def no_sessions_left(graph: Graph) -> Iterator[None]:
    yield
    wait_for("all live sessions to be over", lambda: not stats(graph)["sessions"])


def stats(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{graph.url}/stream/webrtc/stats", timeout=60).json()
    return found


@asynccontextmanager
async def session(graph: Graph, **fields: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Client, str]]:
    """A client that is connected and sees pictures."""
    client = Client(microphone=Tone(220.0, 0.3)) if fields.get("drive") == "mic" else Client()
    async with httpx.AsyncClient(base_url=graph.url, timeout=JOB_S) as http:
        try:
            body = {"sdp": await client.offer(), "drive": "push"} | fields
            answer = await http.post("/stream/webrtc/offer", json=body)
            assert answer.status_code == 200, answer.text
            await client.accept(answer.json()["sdp"])
            await until(lambda: len(client.pictures) >= 2, WAIT_S)
            yield http, client, f"/stream/webrtc/{answer.json()['session_id']}"
        finally:
            await client.close()


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(body())  # type: ignore[arg-type]


async def eventually(condition: Callable[[], Awaitable[bool]], timeout_s: float = WAIT_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not await condition():  # noqa: ASYNC110  # another process brings it about
            await asyncio.sleep(0.1)


def test_a_session_speaks_is_interrupted_and_ends(graph: Graph) -> None:
    async def body() -> None:
        async with session(graph) as (http, client, url):
            assert (client.pictures[0].width, client.pictures[0].height) == (720, 1280)
            spoken = (await http.post(f"{url}/speak", files={"audio": speech_wav(30.0)})).json()
            assert spoken["duration_s"] == pytest.approx(30.0)
            await eventually(lambda: is_animated(http, url))
            cut = (await http.post(f"{url}/interrupt")).json()
            assert cut["epoch"] == 1 and 0 < cut["position_s"] < 30 and cut["utterance_id"] == spoken["utterance_id"]
            another_ingress = RayLiveHost(serve.get_deployment_handle("SessionHost", APP_NAME))
            session_id = url.rpartition("/")[2]
            assert (await another_ingress.handle(Interrupt(session_id))).epoch == 1
            assert (await another_ingress.handle(ReadStats(session_id)))["epoch"] == 1
            (one,) = [row for row in stats(graph)["sessions"] if row["session_id"] == session_id]
            assert one["stage_calls"]["motion_diffusion"] > 0 and one["epoch"] == 1
            report = await client.pc.getStats()  # later than what the service was told
            missing = sum(
                one.packetsLost for one in report.values() if one.type == "inbound-rtp" and one.kind == "video"
            )
            assert 0 <= one["packets_lost"] <= missing, (
                "no more than its client lacks, which is none on a quiet machine"
            )
            assert (await http.delete(url)).status_code == 200
            assert_problem(await http.delete(url), 410, "session_ended")
            async with http.stream("GET", f"{url}/events") as events:
                assert events.status_code == 410
        assert stats(graph)["ended"]["deleted"] >= 1

    run(body)


def test_a_session_renews_its_temporary_presenter(graph: Graph) -> None:
    drawing = presenter()
    past = time.time() - 3600
    store = AvatarStore(avatars_dir(), wall_clock=lambda: past)
    avatar_id = store.put(make_avatar(drawing.rgb // 4 * 4, drawing.landmarks), temporary=True).avatar_id

    async def body() -> None:
        async with session(graph, avatar_id=avatar_id) as (http, _, url):
            assert (store.used_at(avatar_id) or 0) > past + 3500
            await http.delete(url)
            await http.delete(f"/avatars/{avatar_id}")
            late = Client()
            gone = await http.post("/stream/webrtc/offer", json={"sdp": await late.offer(), "avatar_id": avatar_id})
            await late.close()
            assert_problem(gone, 404, "avatar_not_found", "avatar_id")

    run(body)


def test_events_flow_while_they_happen(graph: Graph) -> None:
    async def body() -> None:
        async with session(graph) as (http, _, url):
            names: list[str] = []
            async with http.stream("GET", f"{url}/events") as events:
                lines = events.aiter_lines()
                await http.post(f"{url}/speak", files={"audio": speech_wav(0.5)})
                async with asyncio.timeout(WAIT_S):
                    async for line in lines:
                        if line.startswith("event: "):
                            names.append(line.removeprefix("event: "))
                        if line.startswith("data: ") and names[-1] == "speaking_finished":
                            assert json.loads(line.removeprefix("data: "))["position_s"] == pytest.approx(0.5)
                            break
            # on a busy machine pictures come late, and the client is told
            assert [name for name in names if name != "quality"] == [
                "connected",
                "speaking_started",
                "speaking_finished",
            ]
            await http.delete(url)

    run(body)


def test_a_socket_of_speech_a_viewer_and_late_candidates_through_the_proxy(graph: Graph) -> None:
    async def body() -> None:
        viewer = Client()
        async with session(graph) as (http, _, url):
            session_id = url.rpartition("/")[2]
            assert (await http.patch(url, json={"candidates": []})).status_code == 204
            kind = {"Content-Type": "application/sdp"}
            watched = await http.post(f"/stream/whep/{session_id}", content=await viewer.offer(), headers=kind)
            assert watched.status_code == 201, watched.text
            await viewer.accept(watched.text)
            await until(lambda: len(viewer.pictures) >= 2, WAIT_S)
            address = f"{graph.url}{url}/audio?sample_rate=48000&channels=2".replace("http:", "ws:")
            tone = np.repeat(6000 * np.sin(np.arange(48_000) / 20), 2).astype("<i2").tobytes()
            async with connect(address, open_timeout=WAIT_S) as socket:
                await socket.send(tone[: len(tone) // 2])
                await eventually(lambda: is_heard(http, url))
                async with connect(address, open_timeout=WAIT_S) as second:
                    assert json.loads(await second.recv())["code"] == "audio_in_use"
                for start in range(len(tone) // 2, len(tone), 6337):  # 33 ms, and samples cut in two
                    await socket.send(tone[start : start + 6337])
                await socket.send(json.dumps({"type": "end"}))
                await eventually(lambda: quiet(http, url))
            assert (await http.get(f"{url}/stats")).json()["viewers"]
            assert (await http.delete(watched.headers["location"])).status_code == 200
            assert not (await http.get(f"{url}/stats")).json()["viewers"]
            await http.delete(url)
        await viewer.close()

    run(body)


def test_silence_costs_no_neural_call_and_nothing_is_written(graph: Graph, home: Path) -> None:
    async def body() -> None:
        async with session(graph) as (http, _, url):
            drawn = False

            async def loop_is_drawn() -> bool:
                nonlocal drawn
                before = (await http.get(f"{url}/stats")).json()["frames"]
                drawn = drawn or before > 50
                return drawn

            await eventually(loop_is_drawn)
            before = await asyncio.to_thread(neural_calls, graph)
            files = disk.open_for_writing(home)
            await http.post(f"{url}/speak", files={"audio": speech_wav(3.0)})
            for _ in range(20):
                files |= disk.open_for_writing(home)
                await asyncio.sleep(0.1)
            await eventually(lambda: quiet(http, url))
            # the way back into the loop is drawn, too
            await eventually(lambda: shown_without_calls(http, url, 100))
            after = await asyncio.to_thread(neural_calls, graph)
            assert all(after[name] > before[name] for name in before)
            assert not files, "a session writes to no file but logs"
            await http.delete(url)

    replicas = {pid for name in (*STAGES, "SessionHost") for pid in graph.pids(name)}
    before = disk.written(home)
    run(body)
    after = disk.written(home)
    assert replicas < set(before.counts), "replicas and more: ingress, raylet"
    assert set(before.counts) <= set(after.counts), "all of them live; Ray Serve may have started more"
    assert before.beside_logs(after) == {}, "bytes that replicas and the raylet wrote during a session, logs left out"
    assert not spilled(home), "nothing is spilled"


def neural_calls(graph: Graph) -> dict[str, int]:
    return {name: sum(one.calls for one in graph.stage_stats(name)) for name in ("AudioFeatures", "MotionDiffusion")}


async def quiet(http: httpx.AsyncClient, url: str) -> bool:
    found = (await http.get(f"{url}/stats")).json()
    return found["state"] == "idle" and found["utterances"] >= 1 and found["queue_depths"]["renders"] == 0


async def shown_without_calls(http: httpx.AsyncClient, url: str, frames: int) -> bool:
    """Whether so many pictures are shown without a call of any stage."""
    first = (await http.get(f"{url}/stats")).json()
    async with asyncio.timeout(WAIT_S):
        while (now := (await http.get(f"{url}/stats")).json())["stage_calls"] == first["stage_calls"]:
            if now["frames"] >= first["frames"] + frames:
                return True
            await asyncio.sleep(0.2)
    return False


def spilled(home: Path) -> list[Path]:
    return list(home.glob("ray/session_*/ray_spilled_objects*/*"))


def test_a_killed_host_ends_its_sessions_with_a_clear_word(graph: Graph) -> None:
    async def body() -> None:
        async with session(graph, drive="mic") as (http, _, url):
            await asyncio.to_thread(graph.kill, "SessionHost")
            lost = await http.get(f"{url}/stats")
            assert_problem(lost, 404, "session_lost")
            assert_problem(await http.post(f"{url}/interrupt"), 404, "session_lost")
        async with session(graph, drive="mic") as (http, _, url):
            assert (await http.get(f"{url}/stats")).json()["state"] in ("idle", "speaking")
            await http.delete(url)

    run(body)


@pytest.mark.parametrize("deployment", ["MotionDiffusion", "Renderer"])
def test_a_killed_stage_replica_does_not_end_a_session(graph: Graph, deployment: str) -> None:
    async def body() -> None:
        async with session(graph) as (http, client, url):
            await http.post(f"{url}/speak", files={"audio": speech_wav(6.0)})
            await eventually(lambda: is_speaking(http, url))
            killed = await asyncio.to_thread(graph.kill, deployment)
            seen = len(client.pictures)
            await until(lambda: len(client.pictures) > seen + 50, WAIT_S)
            await asyncio.to_thread(graph.replaced, deployment, killed)
            await http.post(f"{url}/interrupt")
            before = await asyncio.to_thread(frames_made, graph, deployment)

            async def works_again() -> bool:
                """A busy machine leaves out what would come too late: then the next speech is drawn."""
                if not await is_speaking(http, url):
                    await http.post(f"{url}/speak", files={"audio": speech_wav(3.0)})
                return await asyncio.to_thread(frames_made, graph, deployment) > before

            await eventually(works_again)
            await http.delete(url)

    run(body)


async def is_heard(http: httpx.AsyncClient, url: str) -> bool:
    """Whether speech has come in."""
    found = (await http.get(f"{url}/stats")).json()
    return bool(found["speaking"] or found["queue_depths"]["speech_ms"] or found["stage_calls"].get("audio_features"))


def frames_made(graph: Graph, deployment: str) -> int:
    return sum(one.frames for one in graph.stage_stats(deployment))


async def is_animated(http: httpx.AsyncClient, url: str) -> bool:
    """Whether somebody speaks and the face has been moved for it."""
    found = (await http.get(f"{url}/stats")).json()
    return bool(found["speaking"] and found["stage_calls"].get("motion_diffusion"))


async def is_speaking(http: httpx.AsyncClient, url: str) -> bool:
    return bool((await http.get(f"{url}/stats")).json()["speaking"])


def test_a_session_lives_through_a_rolling_change_and_can_still_be_ended(graph: Graph) -> None:
    """Whichever of two hosts it is on: neither waits with its change for the session of the other."""
    graph.resubmit("SessionHost", autoscaling_config={"min_replicas": 2})
    try:
        wait_for("two hosts", lambda: len(graph.replicas("SessionHost")) == len(graph.pids("SessionHost")) == 2)
    except AssertionError:
        graph.submit(graph.document)
        raise

    async def body() -> None:
        async with session(graph) as (http, client, url):
            old = set(await asyncio.to_thread(graph.pids, "SessionHost"))
            await asyncio.to_thread(graph.change_args, {"limits": {"max_jobs": 63}})
            await asyncio.to_thread(
                wait_for,
                "new hosts",
                lambda: set(graph.pids("SessionHost")) and not set(graph.pids("SessionHost")) & old,
            )
            seen = len(client.pictures)
            await until(lambda: len(client.pictures) > seen + 25, WAIT_S)
            assert (await http.get(f"{url}/stats")).json()["frames"] > 25
            assert any(url.endswith(row["session_id"]) for row in stats(graph)["sessions"])
            await http.post(f"{url}/speak", files={"audio": speech_wav(0.5)})
            assert (await http.delete(url)).status_code == 200

    run(body)


def test_more_offers_at_once_than_there_are_tokens(graph: Graph) -> None:
    """Three times what fits, at once: exactly what fits is let in, on however many hosts."""

    async def body() -> None:
        wait_for("the tokens of ended sessions", lambda: stats(graph)["capacity"] == 6)
        client, room = Client(), 6
        before = stats(graph)["refused"]
        sdp = await client.offer()
        async with httpx.AsyncClient(base_url=graph.url, timeout=JOB_S) as http:
            wanted = [http.post("/stream/webrtc/offer", json={"sdp": sdp, "drive": "push"}) for _ in range(room + 12)]
            answers = await asyncio.gather(*wanted)
            begun = [one.json()["session_id"] for one in answers if one.status_code == 200]
            refused = [one for one in answers if one.status_code != 200]
            assert (len(set(begun)), len(refused)) == (room, 12)
            for one in refused:
                assert_problem(one, 503, "no_capacity")
            wait_for("every session to be counted", lambda: stats(graph)["active"] == room)
            assert stats(graph)["refused"] - before == 12
            for session_id in begun:
                assert (await http.delete(f"/stream/webrtc/{session_id}")).status_code == 200
        await client.close()

    run(body)
