"""Keys: what is kept of them, who is let in with what, and what becomes of a file that is damaged, shared or read-only."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernels.errors import InvalidInputError
from serve_app.access.key_file import LOOK_S, KeyFile, KeyFileError
from serve_app.access.keys import checked_scopes, has_key_form, new_key_text
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000.0)


@pytest.fixture
def keys(tmp_path: Path, clock: ManualClock) -> KeyFile:
    return KeyFile(tmp_path / "deep" / "keys.json", clock, clock)


def test_a_key_opens_and_its_text_is_kept_nowhere(keys: KeyFile) -> None:
    key, text = keys.create("newsroom", ("generate", "live"))
    assert keys.find(text) == key and keys.valid(key.key_id) == key
    kept = keys.path.read_text()
    assert text not in kept and text.removeprefix("la_key_") not in kept
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert json.loads(kept)["keys"][0]["name"] == "newsroom"
    assert keys.list() == [key]


def test_texts_are_long_differ_and_have_a_checksum() -> None:
    texts = {new_key_text() for _ in range(200)}
    assert len(texts) == 200
    for text in texts:
        assert re.fullmatch("la_key_[0-9A-Za-z]{49}", text) and has_key_form(text)
        swapped = text[:12] + text[13] + text[12] + text[14:]
        assert swapped == text or not has_key_form(swapped)
    digits = "".join(text[7:50] for text in texts)
    counts = [digits.count(letter) for letter in set(digits)]
    assert len(counts) == 62 and max(counts) < 2.5 * min(sorted(counts)[1:])


def test_nothing_else_opens(keys: KeyFile) -> None:
    assert keys.find(new_key_text()) is None  # there is no file yet
    _, text = keys.create("a", ("live",))
    for wrong in (
        "",
        "la_key_",
        text[:-1],
        text + "0",
        text.lower(),
        f" {text}",
        new_key_text(),
        "ключ",
        "\udc80" * 56,
    ):
        assert keys.find(wrong) is None
    digest = json.loads(keys.path.read_text())["keys"][0]["secrets"][0]["digest"]
    assert keys.find(digest) is None and keys.find(f"la_key_{digest}") is None


def test_a_key_expires_to_the_second(keys: KeyFile, clock: ManualClock) -> None:
    key, text = keys.create("a", ("live",), valid_s=60)
    clock.now += 59.9
    assert keys.find(text) == key
    clock.now += 0.1
    assert keys.find(text) is None and keys.valid(key.key_id) is None
    assert not keys.list()[0].valid(clock.now)


def test_another_process_s_revocation_is_noticed(keys: KeyFile, clock: ManualClock) -> None:
    key, text = keys.create("a", ("live",))
    other = KeyFile(keys.path, clock, clock)
    assert other.find(text) == key
    keys.revoke(key.key_id)
    assert keys.find(text) is None
    clock.now += LOOK_S
    assert other.find(text) is None and other.valid(key.key_id) is None


def test_rotation_keeps_the_owner_and_lets_the_old_text_run_out(keys: KeyFile, clock: ManualClock) -> None:
    key, old = keys.create("a", ("live",), valid_s=1000)
    new = keys.rotate(key.key_id, overlap_s=100)
    assert new != old
    for text in (old, new):
        found = keys.find(text)
        assert found is not None and found.key_id == key.key_id
    clock.now += 100
    assert keys.find(old) is None and keys.find(new) is not None
    newest = keys.rotate(key.key_id, overlap_s=0)
    assert keys.find(new) is None and keys.find(newest) is not None
    assert len(keys.list()[0].secrets) == 1
    clock.now += 900
    assert keys.find(newest) is None, "a rotation makes no key last longer"


def test_what_cannot_be_rotated_or_revoked(keys: KeyFile) -> None:
    key, _ = keys.create("a", ("live",))
    for call in (lambda: keys.revoke("k000000000000"), lambda: keys.rotate("../etc", 0)):
        with pytest.raises(InvalidInputError, match="KEY_ID"):
            call()
    keys.revoke(key.key_id)
    with pytest.raises(InvalidInputError, match="revoked"):
        keys.rotate(key.key_id, 0)


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "\x1b[31m"])
def test_names_are_for_people(keys: KeyFile, name: str) -> None:
    with pytest.raises(InvalidInputError, match="name"):
        keys.create(name, ("live",))


def test_scopes() -> None:
    assert checked_scopes(["live", "generate", "live"]) == ("generate", "live")
    for wrong in ([], ["root"], ["LIVE"]):
        with pytest.raises(InvalidInputError, match="scopes"):
            checked_scopes(wrong)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"version": 2}', "\x00\xff", '{"keys": "la_key_secret"}'])
def test_a_damaged_file_lets_nobody_in_and_shows_nothing_of_itself(
    keys: KeyFile, clock: ManualClock, content: str
) -> None:
    _, text = keys.create("a", ("live",))
    keys.path.write_text(content, encoding="latin-1")
    clock.now += LOOK_S
    for _ in range(2):
        with pytest.raises(KeyFileError) as found:
            keys.find(text)
        assert "la_key_secret" not in str(found.value) and str(keys.path) in str(found.value)
    with pytest.raises(KeyFileError):
        keys.create("b", ("live",))
    assert keys.path.read_text(encoding="latin-1") == content, "a file that cannot be read is not written over"


def test_a_file_that_vanishes_lets_nobody_in(keys: KeyFile, clock: ManualClock) -> None:
    _, text = keys.create("a", ("live",))
    keys.path.unlink()
    clock.now += LOOK_S
    assert keys.find(text) is None and keys.signing_secret() is None


def test_processes_and_threads_that_make_keys_at_once_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    code = (
        "import sys\nfrom pathlib import Path\nfrom serve_app.access.key_file import KeyFile\n"
        "for i in range(5): print(KeyFile(Path(sys.argv[1])).create('a', ('live',))[1])"
    )
    command = [sys.executable, "-c", code, str(path)]
    with ThreadPoolExecutor(4) as pool:
        others = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        mine = [pool.submit(KeyFile(path).create, "b", ("live",)) for _ in range(10)]
        texts = [one.result()[1] for one in mine]
        for other in others:
            texts += other.communicate(timeout=60)[0].split()
            assert other.returncode == 0
    assert len(texts) == 20 == len(KeyFile(path).list())
    assert all(KeyFile(path).find(text) is not None for text in texts)
