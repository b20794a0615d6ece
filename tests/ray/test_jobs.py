"""Videos in the background while processes are killed: each ends, once, with the bytes of an undisturbed run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.ray.graph import JOB_S, Graph, speech_wav, wait_for
from tests.ray.test_kills import TRIES, only

SPEECH_S = 2.0


@pytest.fixture(scope="module")
def client(graph: Graph) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=graph.url, timeout=JOB_S) as one:
        yield one


@pytest.fixture(scope="module")
def speech() -> bytes:
    return speech_wav(SPEECH_S)


@pytest.fixture(scope="module")
def undisturbed(graph: Graph, speech: bytes) -> bytes:
    return graph.post(speech, seed=11).content


def create(client: httpx.Client, speech: bytes, **fields: str) -> str:
    answer = client.post("/v1/videos", files={"audio": ("a.wav", speech)}, data={"seed": "11", **fields})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def video(client: httpx.Client, video_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/videos/{video_id}").raise_for_status().json()
    return found


def under_way(client: httpx.Client, video_id: str) -> None:
    wait_for("pictures to be made", lambda: video(client, video_id)["state"] == "running")


def completed(client: httpx.Client, video_id: str) -> bytes:
    def look() -> Any:
        found = video(client, video_id)
        assert found["status"] != "failed", found
        return found["status"] == "completed" and found

    found = wait_for("the video", look, timeout_s=JOB_S)
    return client.get(found["content_url"]).raise_for_status().content


def test_a_video_has_the_bytes_of_generate(client: httpx.Client, speech: bytes, undisturbed: bytes) -> None:
    assert completed(client, create(client, speech)) == undisturbed


def test_a_killed_host_costs_a_video_nothing_but_time(
    graph: Graph, client: httpx.Client, speech: bytes, undisturbed: bytes
) -> None:
    for _ in range(TRIES):
        video_id = create(client, speech)
        under_way(client, video_id)
        killed = graph.kill("SessionHost")
        assert completed(client, video_id) == undisturbed
        graph.replaced("SessionHost", killed)
        if (attempt := video(client, video_id)["attempt"]) > 1:
            break  # else it was over before its host was
    assert attempt == 2


@pytest.mark.nightly("the store alone is killed and opened again in tests/unit; here, only its actor comes back")
def test_a_killed_store_keeps_what_it_has_accepted(client: httpx.Client, speech: bytes) -> None:
    """Videos that are made at the same time share batches, which may change a pixel by a level: these are only counted."""
    ids = [create(client, speech) for _ in range(3)]
    under_way(client, ids[0])
    [pid] = only("_VideoJobs")
    os.kill(pid, signal.SIGKILL)
    wait_for("the store to answer again", lambda: video(client, ids[1])["id"] == ids[1])
    assert all(completed(client, one) for one in ids)
    assert [video(client, one)["attempt"] for one in ids] == [1, 1, 1], "what it had begun went on"


@pytest.mark.nightly(
    "an ingress of a service without Ray is killed in tests/unit/benchmarks/production; here, its replica comes back"
)
def test_a_killed_ingress_takes_no_video_along(client: httpx.Client, speech: bytes) -> None:
    ids = [create(client, speech) for _ in range(2)]
    under_way(client, ids[0])
    [pid] = only("ServeReplica:liveanchor:Ingress")
    os.kill(pid, signal.SIGKILL)

    def repeated() -> str:
        key = {"Idempotency-Key": "after-a-killed-ingress"}
        try:
            answer = client.post("/v1/videos", files={"audio": ("a.wav", speech)}, data={"seed": "11"}, headers=key)
        except httpx.HTTPError:  # its replica is being started again
            return ""
        return str(answer.json()["id"]) if answer.status_code == 202 else ""

    ids.append(wait_for("another ingress", repeated))
    assert repeated() == ids[-1]
    assert all(completed(client, one) for one in ids)
    assert [video(client, one)["attempt"] for one in ids] == [1, 1, 1]


def test_a_cancelled_video_stops_its_host_and_is_told(graph: Graph, client: httpx.Client) -> None:
    video_id = create(client, speech_wav(60.0), webhook_url="http://localhost/")
    under_way(client, video_id)
    assert client.post(f"/v1/videos/{video_id}/cancel").json()["state"] == "cancelled"
    wait_for("the host to stop", lambda: not any(one.active_jobs for one in graph.host_stats()))
    told = f"/v1/videos/{video_id}/webhooks"
    tried = wait_for("an attempt to tell it", lambda: client.get(told).json()["data"][0]["attempts"])
    assert tried[0]["note"].startswith("url_refused"), "messages do not go into the own network"
    assert client.delete(f"/v1/videos/{video_id}").json()["deleted"]


def test_a_presenter_is_forgotten_on_every_node_and_in_every_process(
    client: httpx.Client, speech: bytes, undisturbed: bytes
) -> None:
    made = create(client, speech)
    assert completed(client, made) == undisturbed
    default = next(one for one in client.get("/avatars").json()["avatars"] if one["is_default"])["avatar_id"]
    found = client.post("/v1/forget", json={"avatar_id": default}).raise_for_status().json()
    assert found["complete"], found
    assert found["presenters"] == [default] and made in found["videos"]
    kinds = {"node" if one.startswith("node ") else "process" for one in found["cleared"]}
    assert kinds == {"node", "process"} and len(found["cleared"]) >= 3, "the node, a host, a renderer"
    assert client.get(f"/v1/videos/{made}").status_code == 404
    assert completed(client, create(client, speech)) == undisturbed, "the default presenter comes back as it was"
