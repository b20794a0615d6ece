"""`POST /stream/livekit` and its DELETE, over a fake host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.live.contracts import Drive
from pipeline.livekit.errors import LiveKitMissingError, RoomUnreachableError
from tests.support.http_server import Served, assert_problem, serving
from tests.unit.pipeline.livekit.test_invitation import GOOD, token

PATH = "/stream/livekit"
ROOM = {"url": "wss://live.example", "token": token(GOOD)}


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("rooms"), livekit_hosts=("live.example",)) as one:
        yield one


@pytest.fixture
def served(one_server: Served) -> Served:
    one_server.host.live.reset()
    return one_server


def test_a_presenter_joins_a_room_and_leaves_it(served: Served) -> None:
    answer = served.client.post(PATH, json=ROOM | {"fps": 50, "seed": 7, "avatar_id": "a" * 32})
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    assert (told["room"], told["identity"], told["fps"]) == ("studio", "avatar", 50)
    assert answer.headers["location"] == f"{PATH}/{told['session_id']}"
    (session,) = served.host.live.sessions.values()
    offer = session.offer
    assert (offer.sdp, offer.drive, offer.seed, offer.avatar_id) == ("", Drive.PUSH, 7, "a" * 32)
    assert (offer.room.url, offer.room.agent) == (ROOM["url"], "agent")
    assert ROOM["token"] not in repr(offer) and ROOM["token"] not in answer.text
    assert served.client.get(f"/stream/webrtc/{told['session_id']}/stats").status_code == 200
    assert served.client.delete(f"{PATH}/{told['session_id']}").status_code == 200
    assert_problem(served.client.delete(f"{PATH}/{told['session_id']}"), 410, "session_ended")


def test_a_full_service_says_when_to_ask_again(served: Served) -> None:
    served.host.live.capacity = 0
    answer = served.client.post(PATH, json=ROOM)
    assert_problem(answer, 503, "no_capacity")
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    "body, field",
    (
        (ROOM | {"url": "wss://169.254.169.254"}, "url"),
        (ROOM | {"token": "not.a.token"}, "token"),
        (ROOM | {"fps": 30}, "fps"),
        (ROOM | {"sdp": "v=0"}, "sdp"),
        ({"url": ROOM["url"]}, "token"),
        ({"token": ROOM["token"]}, "url"),
    ),
)
def test_bad_requests_name_their_field_and_begin_nothing(served: Served, body: dict[str, Any], field: str) -> None:
    assert_problem(served.client.post(PATH, json=body), 422, field=field)
    assert served.host.live.sessions == {}


def test_other_bodies_are_refused(served: Served) -> None:
    assert_problem(served.client.post(PATH, data=ROOM), 415)
    assert_problem(served.client.post(PATH, content=b"{", headers={"Content-Type": "application/json"}), 400)


@pytest.mark.parametrize(
    "failure, status, code",
    (
        (RoomUnreachableError("live.example", "connection refused"), 503, "room_unreachable"),
        (LiveKitMissingError(), 501, "livekit_missing"),
    ),
)
def test_what_keeps_it_out_of_the_room_is_told(served: Served, failure: Exception, status: int, code: str) -> None:
    served.host.live.failure = failure
    answer = served.client.post(PATH, json=ROOM)
    assert_problem(answer, status, code)
    assert ("retry-after" in answer.headers) is (status == 503)


def test_by_default_no_room_may_be_joined(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        assert_problem(one.client.post(PATH, json=ROOM), 422, field="url")
