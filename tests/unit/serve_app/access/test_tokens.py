"""Session tokens: who reads them, and what is made of forged, stretched, foreign and outdated ones."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from serve_app.access.caller import Caller, anybody
from serve_app.access.key_file import LOOK_S, KeyFile
from serve_app.access.keys import SCOPES, TOKEN_PREFIX, ApiKey, Scope
from serve_app.access.owned_ids import belongs_to, is_own, owned_id
from serve_app.access.tokens import SessionTokens
from tests.support.manual_clock import ManualClock

TTL_S, SESSION_S = 600.0, 3600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000.0)


@pytest.fixture
def keys(tmp_path: Path, clock: ManualClock) -> KeyFile:
    return KeyFile(tmp_path / "keys.json", clock, clock)


@pytest.fixture
def tokens(keys: KeyFile, clock: ManualClock) -> SessionTokens:
    return SessionTokens(keys, TTL_S, SESSION_S, clock)


def caller_with(keys: KeyFile, *scopes: Scope) -> tuple[Caller, ApiKey]:
    key, _ = keys.create("a", scopes)
    return Caller(key.key_id, frozenset(scopes), key.key_id), key


def repacked(text: str, **changes: object) -> str:
    """The token with another content under its old signature."""
    body, _, signature = text.removeprefix(TOKEN_PREFIX).partition(".")
    found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    packed = base64.urlsafe_b64encode(json.dumps(found | changes).encode()).rstrip(b"=").decode()
    return f"{TOKEN_PREFIX}{packed}.{signature}"


def test_every_process_with_the_file_reads_a_token(tokens: SessionTokens, keys: KeyFile, clock: ManualClock) -> None:
    caller, key = caller_with(keys, "generate", "live")
    given = tokens.give(caller, SCOPES)
    assert given.scopes == ("generate", "live") and given.expires_at == clock.now + TTL_S
    other = SessionTokens(KeyFile(keys.path, clock, clock), TTL_S, SESSION_S, clock)
    found = other.read(given.text)
    assert found == Caller(key.key_id, frozenset(("generate", "live")), key.key_id, clock.now)


def test_a_token_allows_no_more_than_was_asked_for(tokens: SessionTokens, keys: KeyFile) -> None:
    caller, _ = caller_with(keys, "admin")
    narrow = tokens.read(tokens.give(caller, ("live",)).text)
    assert narrow is not None and narrow.scopes == {"live"} and not narrow.admin
    again = tokens.give(narrow, SCOPES)
    assert again.scopes == ("live",), "a token cannot be exchanged for a wider one"


def test_a_token_ends_and_can_be_renewed_only_so_long(tokens: SessionTokens, keys: KeyFile, clock: ManualClock) -> None:
    caller, _ = caller_with(keys, "live")
    born = clock.now
    text = tokens.give(caller, SCOPES).text
    for _ in range(100):
        clock.now += TTL_S / 2
        holder = tokens.read(text)
        if holder is None:
            break
        text = tokens.give(holder, SCOPES).text
    assert clock.now == born + SESSION_S
    clock.now = born
    text = tokens.give(caller, SCOPES, 60).text
    clock.now += 59.9
    assert tokens.read(text) is not None
    clock.now += 0.1
    assert tokens.read(text) is None, "replayed"


def test_a_token_ends_with_its_key(tokens: SessionTokens, keys: KeyFile, clock: ManualClock) -> None:
    caller, key = caller_with(keys, "live")
    text = tokens.give(caller, SCOPES).text
    keys.rotate(key.key_id, 0)
    assert tokens.read(text) is not None, "a rotation ends no session"
    keys.revoke(key.key_id)
    clock.now += LOOK_S
    assert tokens.read(text) is None


def test_forged_tokens_open_nothing(tokens: SessionTokens, keys: KeyFile, clock: ManualClock, tmp_path: Path) -> None:
    caller, key = caller_with(keys, "live")
    other, _ = caller_with(keys, "admin")
    text = tokens.give(caller, SCOPES).text
    assert tokens.read(repacked(text)) is None or repacked(text) == text
    forged = [
        repacked(text, s=["admin"]),
        repacked(text, k=other.owner),
        repacked(text, e=clock.now + 1e9),
        text.rpartition(".")[0] + ".",
        text.rpartition(".")[0],
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        text + "A",
        TOKEN_PREFIX,
        f"{TOKEN_PREFIX}.",
        f"{TOKEN_PREFIX}..",
        f"{TOKEN_PREFIX}{'A' * 5000}.{'A' * 43}",
        text.removeprefix(TOKEN_PREFIX),
        text.replace(".", "ö"),
        key.key_id,
    ]
    assert [one for one in forged if tokens.read(one) is not None] == []
    stranger = KeyFile(tmp_path / "other.json", clock, clock)
    stranger.create("x", ("admin",))
    foreign = SessionTokens(stranger, TTL_S, SESSION_S, clock).give(other, SCOPES)
    assert tokens.read(foreign.text) is None, "signed by another service"


def test_a_key_never_is_a_token(tokens: SessionTokens, keys: KeyFile) -> None:
    _, text = keys.create("a", ("live",))
    assert tokens.read(text) is None and keys.find(text) is not None


def test_ids_say_whose_they_are() -> None:
    anna = Caller("k0000000000aa", frozenset({"live"}), "")
    berta = Caller("k0000000000bb", frozenset({"live"}), "")
    admin = Caller("k0000000000cc", frozenset({"admin"}), "")
    plain = "0123456789abcdef0123456789abcdef"
    owned = owned_id(plain, anna.owner)
    assert owned.startswith(plain) and len(owned) == 48
    assert is_own(owned, anna) and belongs_to(owned, anna.owner)
    assert not is_own(owned, berta) and is_own(owned, admin)
    for other in (plain, plain + owned_id(plain, berta.owner)[-16:], owned[:-1] + "0", owned[1:], "", "é" * 48):
        assert other == owned or not is_own(other, anna)
    assert not is_own(plain, anna), "what was made without a key is the operator's"
    assert owned_id(plain, "") == plain and is_own(plain, anybody("x"))
    assert not belongs_to(owned_id(plain, ""), "")
