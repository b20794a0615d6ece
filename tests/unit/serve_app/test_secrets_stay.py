"""Secrets stand in no log and in no error: keys in wrong places, passwords of stores, TURN servers and voices."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import structlog
from pydantic import BaseModel, SecretStr

from deployments.video_jobs.commands import GetJob
from deployments.video_jobs.errors import JobStoreError
from kernels.errors import InvalidInputError, LiveAnchorError
from liveanchor.client import BadArgumentError, Client
from serve_app.cli.remote import KEY_ENV, URL_ENV, named_service, running_service
from serve_app.config.errors import SECRET_FIELDS
from serve_app.config.settings import AppConfig, load_config
from tests.support.http_server import wav
from tests.support.keys import Keyed, keyed

HIDDEN = "h1dden-pa55word"
ICE = {"ice_servers": [{"urls": ["turn:turn.example:3478"], "username": "u", "credential": HIDDEN}]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with keyed(tmp_path_factory.mktemp("secrets"), rtc=ICE) as one:
        yield one


def wrong_places(secret: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Requests that hold a secret where none belongs."""
    bearer, speech = {"Authorization": f"Bearer {secret}"}, {"audio": ("speech.wav", wav(), "audio/wav")}
    return [
        ("GET", f"/v1/videos?api_key={secret}", {}),
        ("GET", f"/v1/videos/{secret}", {"headers": bearer}),
        ("GET", f"/results/{secret}", {"headers": bearer}),
        ("GET", f"/jobs/{secret}", {"headers": bearer}),
        ("GET", f"/nowhere/{secret}", {"headers": bearer}),
        ("GET", f"/problems/{secret}", {}),
        ("GET", f"/avatars/{secret}", {"headers": bearer}),
        ("GET", "/v1/videos", {"headers": {"Authorization": f"Basic {secret}"}}),
        ("GET", "/v1/videos", {"headers": {"Authorization": secret}}),
        ("GET", "/v1/videos", {"headers": {"Authorization": f"Bearer {secret}x"}}),
        ("GET", "/v1/videos", {"headers": {"X-Request-Id": secret}}),
        ("POST", "/generate", {"headers": bearer, "files": speech, "data": {"seed": secret}}),
        ("POST", "/generate", {"headers": bearer, "files": speech, "data": {"avatar_id": secret}}),
        ("POST", "/generate", {"headers": bearer, "files": speech, "data": {secret: "1"}}),
        ("POST", "/generate", {"headers": bearer, "files": {"audio": (f"{secret}.wav", b"no sound")}}),
        ("POST", "/generate", {"headers": bearer, "data": {"audio_url": f"ftp://user:{secret}@files.example/a.wav"}}),
        ("POST", "/generate", {"headers": bearer, "data": {"audio_url": f"https://user:{secret}@files.example/a.wav"}}),
        ("POST", "/v1/videos", {"headers": bearer | {"Idempotency-Key": secret}, "data": {"prompt": ""}}),
        ("POST", "/v1/videos", {"headers": bearer, "json": {"prompt": "a", "metadata": {"k" * 65: secret}}}),
        ("POST", "/auth/token", {"headers": bearer, "json": {"scopes": [secret]}}),
        ("POST", "/stream/webrtc/offer", {"headers": bearer, "json": {"sdp": secret}}),
        ("POST", f"/stream/webrtc/{secret}/interrupt", {"headers": bearer}),
        ("DELETE", f"/stream/webrtc/{secret}", {"headers": bearer}),
    ]  # fmt: skip


def test_keys_and_tokens_in_any_place_are_in_no_log_and_no_answer(
    service: Keyed, caplog: pytest.LogCaptureFixture
) -> None:
    _, key = service.key()
    token = service.showing(key).post("/auth/token").json()["token"]
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # the test's own client logs the addresses that it asks
    logging.getLogger("httpcore").setLevel(logging.WARNING)
    statuses = set()
    with structlog.testing.capture_logs() as logs:
        for secret in (key, token):
            for method, path, more in wrong_places(secret):
                answer = service.served.client.request(method, path, **more)
                statuses.add(answer.status_code)
                said = answer.text + json.dumps(dict(answer.headers))
                assert secret not in said and secret[8:] not in said, (method, path[:20], more.keys(), said[:300])
    everything = json.dumps(logs, default=repr) + caplog.text
    assert "request" in everything and {401, 404, 422} <= statuses
    for secret in (key, token):
        assert secret not in everything and secret[8:] not in everything


WRONG_SETTINGS = {
    "LIVEANCHOR_STORES__JOBS": f"http://:{HIDDEN}@valkey:6379/0",
    "LIVEANCHOR_QUOTAS__COUNTERS": f"redis://user:{HIDDEN}@valkey:6379/1",
    "LIVEANCHOR_VOICES__URL": f"ftp://user:{HIDDEN}@tts:8880/v1",
    "LIVEANCHOR_VOICES": json.dumps({"key": {"a": HIDDEN}}),
    "LIVEANCHOR_AGENT__URL": f"ftp://user:{HIDDEN}@llm:8000/v1",
    "LIVEANCHOR_AGENT": json.dumps({"hearing": {"url": "http://asr", "key": HIDDEN}}),  # without url
    "LIVEANCHOR_RTC__ICE_SERVERS": f'[{{"urls": ["turn:a:1"], "credential": "{HIDDEN}"',
    "LIVEANCHOR_RTC": json.dumps({"ice_servers": [{"username": "u", "credential": HIDDEN}]}),
    "LIVEANCHOR_RTC__ICE_SERVERS__0": HIDDEN,
    "LIVEANCHOR_RTC__TURN_SECRET": HIDDEN,  # without turn_urls
}


@pytest.mark.parametrize("name", WRONG_SETTINGS)
def test_a_setting_that_is_refused_is_named_without_its_secret(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, WRONG_SETTINGS[name])
    with pytest.raises(InvalidInputError) as refused:
        load_config()
    assert HIDDEN not in f"{refused.value} {refused.value!r} {vars(refused.value)}"


def test_more_ice_servers_with_something_wrong_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = [*ICE["ice_servers"], {"urls": [], "credential": HIDDEN}]
    monkeypatch.setenv("LIVEANCHOR_RTC__ICE_SERVERS", json.dumps(servers))
    with pytest.raises(InvalidInputError, match=r"rtc\.ice_servers\.1\.urls") as refused:
        load_config()
    assert HIDDEN not in str(refused.value)


def secret_fields(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        for one in (field.annotation, *get_args(field.annotation)):
            if one is SecretStr:
                yield name
            elif isinstance(one, type) and issubclass(one, BaseModel):
                yield from secret_fields(one)


def test_every_secret_setting_is_known_to_be_one() -> None:
    assert set(secret_fields(AppConfig)) == set(SECRET_FIELDS)
    server = {"url": "http://tts:1/v1", "key": HIDDEN}
    config = AppConfig.model_validate({"rtc": ICE, "voices": server, "agent": server | {"hearing": server}})
    assert HIDDEN not in f"{config!r} {config}"


def test_a_store_that_is_away_says_where_without_its_password() -> None:
    redis_store = pytest.importorskip("deployments.video_jobs.redis_store")
    store = redis_store.RedisJobStore(f"redis://user:{HIDDEN}@127.0.0.1:9/0")
    with pytest.raises(JobStoreError) as away, structlog.testing.capture_logs() as logs:
        store.handle(GetJob("video_1", None))
    store.close()
    assert "127.0.0.1:9" in str(away.value) and HIDDEN not in f"{away.value} {away.value!r} {logs}"


@pytest.mark.parametrize("url", [f"http://user:{HIDDEN}@127.0.0.1:9", f"https://{HIDDEN}@faces.example"])
def test_addresses_with_passwords_are_refused_and_not_repeated(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadArgumentError) as refused:
        Client(url)
    assert HIDDEN not in f"{refused.value} {refused.value!r}"
    monkeypatch.setenv(URL_ENV, url)
    for ask in (named_service, running_service):
        with pytest.raises(InvalidInputError) as named:
            ask()
        assert HIDDEN not in str(named.value)


def test_the_command_line_repeats_no_key(monkeypatch: pytest.MonkeyPatch, service: Keyed) -> None:
    from serve_app.cli.remote import client_of

    monkeypatch.setenv(KEY_ENV, f"la_live_{HIDDEN}")
    with pytest.raises(LiveAnchorError) as refused, client_of(str(service.served.client.base_url)) as client:
        client.videos.list()
    assert HIDDEN not in f"{refused.value} {refused.value!r}"
    with pytest.raises(LiveAnchorError) as away, client_of("http://127.0.0.1:9") as client:
        client.videos.list()
    assert HIDDEN not in f"{away.value} {away.value!r}"
