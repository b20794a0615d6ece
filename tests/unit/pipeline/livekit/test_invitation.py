"""Which rooms a session may be sent to, and what is read of a token."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kernels.errors import InvalidInputError
from pipeline.livekit.invitation import read_invitation

URL = "wss://live.example"
HOSTS = ("live.example", "*.cloud.example")


def token(claims: Any) -> str:
    return "e30." + base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=") + ".c2ln"


GOOD = {"sub": "avatar", "video": {"room": "studio", "roomJoin": True}, "attributes": {"lk.publish_on_behalf": "agent"}}


def test_room_identity_and_agent_are_read_and_the_token_is_shown_nowhere() -> None:
    found = read_invitation("wss://eu.cloud.example:7880", token(GOOD), HOSTS)
    assert (found.room, found.identity, found.agent, found.host) == ("studio", "avatar", "agent", "eu.cloud.example")
    assert token(GOOD) not in repr(found)
    assert read_invitation(URL, token(GOOD | {"attributes": None}), HOSTS).agent == ""


@pytest.mark.parametrize(
    "url",
    (
        "wss://other.example", "wss://live.example.evil.example", "wss://cloud.example", "wss://evilcloud.example", "live.example",
        "ws://10.0.0.5\\.cloud.example", "ws://10.0.0.5%2f.cloud.example", "ws://10.0.0.5|.cloud.example", "ws:\t//live.example",
        "ws://live.example/\\..", "ws://10.0.0.5\uff0f.cloud.example", "ws://@live.example", "ftp://live.example",
        "wss://u:p@live.example", "wss://live.example:99999", "wss://[::1", "wss://127.0.0.1", "",
    ),
)  # fmt: skip
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_invitation(url, token(GOOD), HOSTS)
    assert caught.value.field == "url"


def test_without_a_setting_no_host_is_allowed() -> None:
    with pytest.raises(InvalidInputError, match="live.livekit_hosts"):
        read_invitation(URL, token(GOOD), ())


@pytest.mark.parametrize(
    "bad",
    (
        "", "a.b", "a.%%%.c", "a." + "A" * 20_000 + ".c", token([1]), token({}), token(GOOD | {"video": {"room": "studio"}}),
        token(GOOD | {"video": {"room": "", "roomJoin": True}}), token(GOOD | {"sub": 7}), token(GOOD | {"video": "x"}),
        token("[" * 900),
    ),
)  # fmt: skip
def test_tokens_that_let_nobody_in_are_refused_before_anybody_is_asked(bad: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_invitation(URL, bad, HOSTS)
    assert caught.value.field == "token"
    assert bad == "" or bad not in str(caught.value)
