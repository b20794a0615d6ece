"""A brain from servers: what is asked, what is understood, and every way in which servers fail."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

pytest.importorskip("fastapi")

from kernels.errors import LiveAnchorError
from pipeline.talk.brain import EchoBrain, Exchange, Heard, Sound, Thought, Words
from pipeline.talk.chat_brain import ChatBrain
from pipeline.talk.chat_server import MAX_LINE_BYTES, ChatServer
from pipeline.talk.choice import find_brain
from pipeline.talk.errors import AgentFailedError, AgentUnreachableError
from pipeline.talk.settings import INSTRUCTIONS, AgentSettings
from tests.support.agent_api import AgentApi, agent_api, delta, reply
from tests.support.http_server import wait_for
from tests.support.live import tone

PRIVATE = "what nobody else may read"


@pytest.fixture(scope="module")
def one_api() -> Iterator[AgentApi]:
    with agent_api() as api:
        yield api


@pytest.fixture
def api(one_api: AgentApi) -> AgentApi:
    vars(one_api).update(vars(AgentApi(url=one_api.url)))
    return one_api


def thoughts(api: AgentApi, before: Sequence[Exchange] = (), **settings: Any) -> list[Thought]:
    async def whole() -> list[Thought]:
        brain = find_brain(AgentSettings.model_validate({"url": api.url} | settings))
        assert isinstance(brain, ChatBrain)
        try:
            async with aclosing(brain.answer(tone(1.5), before)) as found:
                return [one async for one in found]
        finally:
            await brain.close()

    return asyncio.run(whole())


def written(found: list[Thought]) -> str:
    return "".join(one.text for one in found if isinstance(one, Words))


def test_the_requests_are_the_conventions(api: AgentApi) -> None:
    before = [Exchange("Hello?", "Hello!")]
    found = thoughts(api, before, key="s3cret", model="llama", hearing={"language": "en"})
    assert found[0] == Heard("What is new?") and written(found) == "Good evening. Here is the news."
    [(fields, headers, seconds, rate_hz)], [(body, chat_headers)] = api.heard, api.asked
    assert fields == {"model": "whisper-1", "language": "en", "response_format": "json"}
    assert headers["authorization"] == chat_headers["authorization"] == "Bearer s3cret"
    assert seconds == pytest.approx(1.5) and rate_hz == 16_000
    assert body["model"] == "llama" and body["stream"] is True
    assert [(one["role"], one["content"]) for one in body["messages"]] == [
        ("system", INSTRUCTIONS),
        ("user", "Hello?"),
        ("assistant", "Hello!"),
        ("user", "What is new?"),
    ]
    thoughts(api, instructions="", hearing={"model": "tiny"})
    assert api.heard[1][0] == {"model": "tiny", "response_format": "json"} and "authorization" not in api.asked[1][1]
    assert api.asked[1][0] == {"messages": [{"role": "user", "content": "What is new?"}], "stream": True}


@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_the_stream_may_be_cut_anywhere(api: AgentApi, size: int) -> None:
    whole = b": hello\r\n\r\n" + b"".join(reply("Grüß ", "dich. ", "Wie geht's?")).replace(b"\n", b"\r\n")
    api.reply = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert written(thoughts(api)) == "Grüß dich. Wie geht's?"


def test_a_server_that_does_not_stream_is_understood(api: AgentApi) -> None:
    document = {"choices": [{"message": {"role": "assistant", "content": "All at once."}, "finish_reason": "stop"}]}
    api.reply, api.media_type = [json.dumps(document).encode()], "application/json"
    assert written(thoughts(api)) == "All at once."


def test_a_stream_without_its_last_line_is_whole_where_it_says_why_it_ended(api: AgentApi) -> None:
    api.reply = [delta("Good evening."), delta("", "stop")]
    assert written(thoughts(api)) == "Good evening."


def test_no_words_get_no_answer(api: AgentApi) -> None:
    api.transcript = "  \n"
    assert thoughts(api) == [Heard("")] and api.asked == []


def test_a_piece_is_handed_on_before_the_rest_came_and_leaving_tells_the_server(api: AgentApi) -> None:
    api.reply, api.stalls = [delta("Good evening.")], True

    async def first() -> str:
        server = ChatServer(AgentSettings(url=api.url))
        async with aclosing(server.reply([{"role": "user", "content": "Hello?"}])) as pieces:
            piece = await anext(pieces)
        await server.close()
        return piece

    assert asyncio.run(first()) == "Good evening."
    wait_for(lambda: api.left == 1)


def test_an_answer_is_bounded(api: AgentApi) -> None:
    api.reply, api.stalls = [delta("word " * 30)] * 20, True
    assert len(written(thoughts(api, reply_characters=400))) == 400
    wait_for(lambda: api.left == 1)


def test_an_answer_that_drips_for_ever_is_left(api: AgentApi) -> None:
    api.reply = [b": still here\n\n"] * 20
    seconds = iter([0.0, *range(10, 400, 10)])

    async def whole() -> None:
        server = ChatServer(AgentSettings(url=api.url, reply_s=60), clock=lambda: float(next(seconds)))
        try:
            async with aclosing(server.reply([])) as pieces:
                async for _ in pieces:
                    raise AssertionError("there is nothing to say")
        finally:
            await server.close()

    with pytest.raises(AgentUnreachableError, match="did not end its reply within 60 s"):
        asyncio.run(whole())


REFUSED = json.dumps({"error": {"message": PRIVATE}}).encode()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"status": 401, "reply": [REFUSED]}, AgentFailedError, "answered 401$"),
        ({"status": 404, "reply": []}, AgentFailedError, "answered 404$"),
        ({"status": 307, "reply": []}, AgentFailedError, "answered 307, which is no reply"),
        ({"status": 500, "reply": [REFUSED]}, AgentUnreachableError, "answered 500$"),
        ({"status": 429, "reply": []}, AgentUnreachableError, "answered 429$"),
        ({"reply": [b"data: {broken\n\n"]}, AgentFailedError, "no chat completion"),
        ({"reply": [b"data: 7\n\n"]}, AgentFailedError, "no chat completion"),
        ({"reply": [b'data: {"choices": [7]}\n\n']}, AgentFailedError, "no chat completion"),
        ({"reply": [b"data: " + REFUSED + b"\n\n"]}, AgentFailedError, "told of an error"),
        ({"reply": [b"data: " + b"x" * (MAX_LINE_BYTES + 10)]}, AgentFailedError, "has no end"),
        ({"reply": [delta("Good evening. Here")]}, AgentUnreachableError, "broke off in the middle"),
        ({"reply": [delta("Good evening.")], "breaks": True}, AgentUnreachableError, "broke off"),
        ({"reply": [], "stalls": True}, AgentUnreachableError, "does not answer in time"),
        ({"reply": [b"[]"], "media_type": "application/json"}, AgentFailedError, "no chat completion"),
        ({"reply": [b'{"choices": []}'], "media_type": "application/json"}, AgentFailedError, "no chat completion"),
        ({"heard_status": 500}, AgentUnreachableError, "answered 500$"),
        ({"heard_status": 400, "transcript": PRIVATE}, AgentFailedError, "answered 400$"),
        ({"transcript": b"{broken"}, AgentFailedError, "no JSON with a text"),
        ({"transcript": b'{"text": 7}'}, AgentFailedError, "no JSON with a text"),
        ({"transcript": b"[]"}, AgentFailedError, "no JSON with a text"),
        ({"transcript": b"x" * 300_000}, AgentFailedError, "has no end"),
    ],
)
def test_every_failure_is_typed_and_says_nothing_of_what_was_said(
    api: AgentApi, change: dict[str, Any], error: type[LiveAnchorError], says: str
) -> None:
    vars(api).update(change)
    with pytest.raises(error, match=says) as failed:
        thoughts(api, key="s3cret", silent_s=0.5)
    told = str(failed.value)
    assert not any(word in told for word in ("s3cret", api.url, PRIVATE, "What is new", "Good evening"))
    assert failed.value.retryable is (error is AgentUnreachableError)


def test_a_server_that_is_not_there_is_told_soon() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(AgentUnreachableError, match="cannot be reached"):
        thoughts(AgentApi(url=f"http://127.0.0.1:{port}/v1"))


def test_without_a_server_the_voice_itself_comes_back() -> None:
    async def whole() -> list[Thought]:
        brain = find_brain(AgentSettings())
        assert isinstance(brain, EchoBrain)
        return [one async for one in brain.answer(tone(0.5), ())]

    [sound] = asyncio.run(whole())
    assert isinstance(sound, Sound)
    np.testing.assert_array_equal(sound.pcm, tone(0.5))


@pytest.mark.parametrize(
    ("settings", "chat", "ears"),
    [
        ({"url": "http://llm:8000"}, "http://llm:8000/v1/chat/completions", "http://llm:8000/v1/audio/transcriptions"),
        (
            {"url": "http://llm/v1/chat/completions"},
            "http://llm/v1/chat/completions",
            "http://llm/v1/audio/transcriptions",
        ),
        (
            {"url": "http://llm/v1", "hearing": {"url": "http://asr/x/v1/"}},
            "http://llm/v1/chat/completions",
            "http://asr/x/v1/audio/transcriptions",
        ),
    ],
)
def test_the_addresses_may_be_written_as_people_write_them(settings: dict[str, Any], chat: str, ears: str) -> None:
    found = AgentSettings.model_validate(settings)
    assert found.endpoint_of("chat/completions") == chat
    assert found.ears.endpoint_of("audio/transcriptions") == ears


def test_keys_go_to_their_own_servers_and_stay_secret() -> None:
    both = AgentSettings.model_validate({"url": "http://llm", "key": "a", "hearing": {"url": "http://asr", "key": "b"}})
    assert both.ears.key.get_secret_value() == "b"
    other = AgentSettings.model_validate({"url": "http://llm", "key": "a", "hearing": {"url": "http://asr"}})
    assert other.ears.key.get_secret_value() == "", "the chat server's key is nobody else's"
    assert AgentSettings.model_validate({"url": "http://llm", "key": "a"}).ears.key.get_secret_value() == "a"
    assert "key='a'" not in repr(both) and both.model_dump(mode="json")["hearing"]["key"] == "b"


REFUSED_SETTINGS: list[tuple[dict[str, Any], Callable[[str], bool]]] = [
    ({"url": "llm:8000"}, lambda said: "an address such as" in said),
    ({"hearing": {"url": "http://asr"}}, lambda said: "set url, too" in said),
    ({"hearing": {"language": "English, please"}}, lambda said: "language" in said),
    ({"pause_s": 0.01}, lambda said: "pause_s" in said),
]


@pytest.mark.parametrize(("settings", "told"), REFUSED_SETTINGS)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Any], told: Callable[[str], bool]) -> None:
    with pytest.raises(ValidationError) as refused:
        AgentSettings.model_validate(settings)
    assert told(str(refused.value))
