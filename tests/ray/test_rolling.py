"""A change of the service under load: four videos are made and four sessions live while every replica is replaced."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import cv2
import httpx
import pytest

from serve_app.cluster.own import details
from serve_app.config.declare import APP_NAME
from tests.ray.graph import JOB_S, STAGES, Graph, speech_wav, wait_for
from tests.ray.test_jobs import completed, create, under_way, video
from tests.ray.test_live import WAIT_S, run, session, stats
from tests.support.rtc import until

AT_ONCE = 4
EVERYTHING = ("Ingress", "SessionHost", *STAGES)
SPEECH_S = 6.0


@pytest.mark.nightly("a session and a video alone live through a change in test_live and test_kills; this is the crowd")
def test_four_videos_and_four_sessions_live_through_a_rolling_change(graph: Graph, tmp_path: Any) -> None:
    speech = speech_wav(SPEECH_S)

    async def body() -> None:
        with httpx.Client(base_url=graph.url, timeout=JOB_S) as client:
            async with AsyncExitStack() as stack:
                live = [await stack.enter_async_context(session(graph)) for _ in range(AT_ONCE)]
                for _, one, _ in live:
                    one.forgets = True
                ids = [await asyncio.to_thread(create, client, speech) for _ in range(AT_ONCE)]
                await asyncio.to_thread(under_way, client, ids[0])
                old = {name: _running(graph, name) for name in EVERYTHING}
                await asyncio.to_thread(graph.change_args, {"limits": {"max_jobs": 61}})
                await asyncio.to_thread(wait_for, "new replicas", lambda: _all_new(graph, old), WAIT_S)
                seen = [len(one.times) for _, one, _ in live]
                for (_, one, _), before in zip(live, seen, strict=True):
                    await until(lambda one=one, before=before: len(one.times) > before + 25, WAIT_S)
                async with session(graph):
                    assert len((await asyncio.to_thread(stats, graph))["sessions"]) == AT_ONCE + 1, (
                        "offers are taken while old hosts drain"
                    )
                for http, _, url in live:
                    assert (await http.delete(url)).status_code == 200
            for number, video_id in enumerate(ids):
                data = await asyncio.to_thread(completed, client, video_id)
                assert video(client, video_id)["attempt"] == 1, "a host that drains finishes what it makes"
                path = tmp_path / f"{number}.mp4"
                path.write_bytes(data)
                assert cv2.VideoCapture(str(path)).get(cv2.CAP_PROP_FRAME_COUNT) == SPEECH_S * 25

    run(body)


def _running(graph: Graph, deployment: str) -> set[str]:
    """Ids of replicas; none while Ray builds the application again, when it lists no deployment."""
    found = details(graph.cluster)["applications"][APP_NAME]["deployments"].get(deployment, {"replicas": []})
    return {one["replica_id"] for one in found["replicas"] if one["state"] == "RUNNING"}


def _all_new(graph: Graph, old: dict[str, set[str]]) -> bool:
    """On one GPU a stage is away between its old replica and its new one: until then offers are told to come again."""
    now = {name: _running(graph, name) for name in old}
    return all(now[name] and not now[name] & old[name] for name in old) and _is_ready(graph)


def _is_ready(graph: Graph) -> bool:
    return httpx.get(f"{graph.url}/readyz", timeout=60).status_code == 200
