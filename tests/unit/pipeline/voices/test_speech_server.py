"""A voice from a server of `/v1/audio/speech`: what is asked, what is heard, and every way in which servers fail."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

pytest.importorskip("fastapi")

from kernels.errors import LiveAnchorError
from pipeline.voices.choice import find_voice
from pipeline.voices.errors import VoiceFailedError, VoiceUnreachableError
from pipeline.voices.pcm_bytes import PcmBytes
from pipeline.voices.settings import VoiceSettings
from pipeline.voices.speech_server import PATH, SpeechServer
from pipeline.voices.voice import VoiceChunk
from tests.support.http_server import wait_for
from tests.support.speech_api import RATE_HZ, SpeechApi, speech_api, tone_bytes, wav_header


@pytest.fixture(scope="module")
def one_api() -> Iterator[SpeechApi]:
    with speech_api() as api:
        yield api


@pytest.fixture
def api(one_api: SpeechApi) -> SpeechApi:
    fresh = SpeechApi(url=one_api.url)
    vars(one_api).update(vars(fresh))
    return one_api


def said(api: SpeechApi, text: str = "Good evening.", **settings: Any) -> list[VoiceChunk]:
    async def whole() -> list[VoiceChunk]:
        voice = find_voice(VoiceSettings.model_validate({"url": api.url} | settings))
        assert isinstance(voice, SpeechServer)
        try:
            async with aclosing(voice.say(text)) as chunks:
                return [chunk async for chunk in chunks]
        finally:
            await voice.close()

    return asyncio.run(whole())


def pcm_of(chunks: list[VoiceChunk]) -> Any:
    return np.concatenate([chunk.pcm for chunk in chunks])


def test_the_request_is_the_convention_s(api: SpeechApi) -> None:
    said(api, "H\u00e9llo.", key="s3cret", model="kokoro", voice="af_heart")
    said(api)
    (body, headers), (plain, no_key) = api.asked
    assert body == {"input": "H\u00e9llo.", "response_format": "pcm", "model": "kokoro", "voice": "af_heart"}
    assert headers["authorization"] == "Bearer s3cret" and headers["content-type"] == "application/json"
    assert plain == {"input": "Good evening.", "response_format": "pcm"} and "authorization" not in no_key


@pytest.mark.parametrize("piece", [1, 3, 1999, 10**6])
def test_raw_pcm_is_heard_as_it_comes(api: SpeechApi, piece: int) -> None:
    api.piece, api.body = piece, tone_bytes(0.05 if piece < 9 else 0.4)
    chunks = said(api)
    np.testing.assert_array_equal(pcm_of(chunks), np.frombuffer(api.body, "<i2") / np.float32(32768))
    assert {chunk.rate_hz for chunk in chunks} == {RATE_HZ} and not any(chunk.words for chunk in chunks)
    assert {chunk.rate_hz for chunk in said(api, pcm_rate_hz=16_000)} == {16_000}


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 38_400])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_wav_tells_its_own_rate_though_pcm_was_asked_for(api: SpeechApi, size: int, channels: int) -> None:
    api.body = wav_header(22_050, channels, size, extra=b"LIST\x03\x00\x00\x00abc\x00") + tone_bytes(channels=channels)
    api.piece = 17
    chunks = said(api)
    np.testing.assert_allclose(pcm_of(chunks), np.frombuffer(tone_bytes(), "<i2") / np.float32(32768), atol=1e-6)
    assert {chunk.rate_hz for chunk in chunks} == {22_050}


def test_sound_is_handed_on_before_all_of_it_came_and_leaving_tells_the_server(api: SpeechApi) -> None:
    api.stalls = True

    async def first() -> int:
        voice = SpeechServer(VoiceSettings(url=api.url))
        async with aclosing(voice.say("Hello.")) as chunks:
            chunk = await anext(chunks)
        await voice.close()
        return len(chunk.pcm)

    assert asyncio.run(first()) > 0
    wait_for(lambda: api.left == 1)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"status": 401, "body": b'{"error": "bad key"}'}, VoiceFailedError, "answered 401: .*bad key"),
        ({"status": 404, "body": b""}, VoiceFailedError, "answered 404$"),
        ({"status": 307, "body": b""}, VoiceFailedError, "answered 307"),
        ({"status": 429, "body": b"slow down"}, VoiceUnreachableError, "answered 429: slow down"),
        ({"status": 503, "body": b"x" * 5000}, VoiceUnreachableError, "answered 503: x"),
        ({"body": b""}, VoiceFailedError, "without any sound"),
        ({"body": b"ID3\x04" + b"\x00" * 400, "media_type": "audio/mpeg"}, VoiceFailedError, "sent audio/mpeg"),
        ({"body": b"OggS" + b"\x00" * 400}, VoiceFailedError, "sent Ogg"),
        ({"body": b"<html>login</html>", "media_type": "text/html"}, VoiceFailedError, "sent text/html"),
        ({"body": b'{"detail": "no"}', "media_type": "application/json"}, VoiceFailedError, "sent application/json"),
        ({"body": wav_header(24_000, bits=24) + bytes(600)}, VoiceFailedError, "24 bit"),
        ({"body": wav_header(24_000, kind=3, bits=32) + bytes(600)}, VoiceFailedError, "format 3"),
        ({"body": wav_header(4000) + bytes(600)}, VoiceFailedError, "4000 Hz"),
        ({"body": wav_header(24_000)[:30]}, VoiceFailedError, "without any sound"),
        ({"breaks": True}, VoiceUnreachableError, "broke off"),
        ({"stalls": True}, VoiceUnreachableError, "does not answer in time"),
    ],
)
def test_every_failure_is_typed_and_says_what_happened(
    api: SpeechApi, change: dict[str, Any], error: type[LiveAnchorError], says: str
) -> None:
    vars(api).update(change)
    with pytest.raises(error, match=says) as failed:
        said(api, key="s3cret", silent_s=0.3)
    assert "s3cret" not in str(failed.value) and api.url not in str(failed.value) and len(str(failed.value)) < 300
    assert failed.value.retryable is (error is VoiceUnreachableError)


def test_a_server_that_is_not_there_is_told_soon() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(VoiceUnreachableError, match="cannot be reached"):
        said(SpeechApi(url=f"http://127.0.0.1:{port}/v1"))


def test_endless_sound_is_stopped(api: SpeechApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.voices.speech_server.LONGEST_S", 0.1)
    with pytest.raises(VoiceFailedError, match=r"more than 0\.1 s"):
        said(api)


def test_raw_samples_may_look_like_text() -> None:
    low = np.full(2000, ord("{") + 256, "<i2").tobytes()
    assert len(PcmBytes(24_000).push(low)) == 2000


def test_a_wav_without_samples_ends_somewhere() -> None:
    endless = b"RIFF\0\0\0\0WAVE" + (b"JUNK" + (60_000).to_bytes(4, "little") + bytes(60_000)) * 2
    with pytest.raises(VoiceFailedError, match="without samples"):
        PcmBytes(24_000).push(endless)


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("", ""),
        ("http://tts:8880", "http://tts:8880/v1/audio/speech"),
        ("http://tts:8880/v1/", "http://tts:8880/v1/audio/speech"),
        ("https://x.example/openai/v1/audio/speech", "https://x.example/openai/v1/audio/speech"),
    ],
)
def test_the_address_may_be_written_as_people_write_it(url: str, endpoint: str) -> None:
    assert VoiceSettings(url=url).endpoint_of(PATH) == endpoint


def test_settings_keep_the_key_and_refuse_what_is_no_address() -> None:
    settings = VoiceSettings.model_validate({"url": "http://tts", "key": "s3cret"})
    assert "s3cret" not in repr(settings) and settings.model_dump(mode="json")["key"] == "s3cret"
    for url in ("tts:8880", "ftp://tts", "http://", "http://tts:99999", "http://tts:eighty", "http://tts:0"):
        with pytest.raises(ValidationError, match="an address such as"):
            VoiceSettings(url=url)
