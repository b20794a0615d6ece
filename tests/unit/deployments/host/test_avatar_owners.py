"""Whose an avatar is, in a folder and at a URI."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments.host.avatar_owners import SHARED, AvatarOwners
from deployments.host.owned_avatars import AvatarSharedError, OwnedAvatars
from pipeline.avatars.quota import AvatarQuota, AvatarsFullError
from pipeline.avatars.store import AvatarNotFoundError, AvatarSummary

ONE, TWO = "1" * 32, "2" * 32
ANNA, BERTA = "k0000000000aa", "k0000000000bb"


@pytest.fixture(params=["folder", "uri"])
def owners(request: pytest.FixtureRequest, tmp_path: Path) -> AvatarOwners:
    return AvatarOwners(str(tmp_path / "avatars") if request.param == "folder" else f"memory://owners-{tmp_path.name}")


@pytest.fixture
def owned(owners: AvatarOwners) -> OwnedAvatars:
    return OwnedAvatars(owners)


def row(avatar_id: str, name: str, size_bytes: int = 10) -> AvatarSummary:
    return AvatarSummary(avatar_id, name, "family", 2, 2, size_bytes)


def test_notes(owners: AvatarOwners) -> None:
    assert owners.of(ONE) == frozenset() and owners.all() == {} and owners.name(ONE, ANNA) is None
    owners.drop(ONE, ANNA)
    owners.forget(ONE)
    owners.add(ONE, ANNA, "Grüße / ../ \n")
    owners.add(ONE, SHARED, "")
    owners.add(TWO, BERTA, "")
    assert owners.of(ONE) == {ANNA, SHARED} and owners.all() == {ONE: {ANNA, SHARED}, TWO: {BERTA}}
    assert owners.name(ONE, ANNA) == "Grüße / ../ \n" and owners.name(TWO, BERTA) == ""
    owners.add(ONE, ANNA, "new")
    assert owners.name(ONE, ANNA) == "new"
    owners.drop(ONE, ANNA)
    assert owners.of(ONE) == {SHARED}
    owners.forget(ONE)
    assert owners.all() == {TWO: {BERTA}}


def test_an_avatar_without_notes_is_everybody_s(owned: OwnedAvatars) -> None:
    for only in (None, ANNA):
        owned.check(ONE, only)
        assert owned.listed([row(ONE, "a")], only) == [row(ONE, "a")]
    assert owned.goes(ONE, None)
    with pytest.raises(AvatarSharedError):
        owned.goes(ONE, ANNA)


def test_an_avatar_of_one_owner(owned: OwnedAvatars) -> None:
    assert owned.claim(ONE, ANNA, "mine", rename=False, exists=False)
    owned.check(ONE, ANNA)
    owned.check(ONE, None)
    for call in (owned.check, owned.goes):
        with pytest.raises(AvatarNotFoundError):
            call(ONE, BERTA)
    assert owned.listed([row(ONE, "x"), row(TWO, "a")], ANNA) == [row(TWO, "a"), row(ONE, "mine")]
    assert owned.listed([row(ONE, "x"), row(TWO, "a")], BERTA) == [row(TWO, "a")]
    assert owned.goes(ONE, ANNA)


def test_names_are_kept_until_a_new_one_is_given(owned: OwnedAvatars, owners: AvatarOwners) -> None:
    owned.claim(ONE, ANNA, "file name", rename=False, exists=False)
    assert owned.claim(ONE, ANNA, "other file", rename=False, exists=True), "its own alone"
    assert owners.name(ONE, ANNA) == "file name"
    owned.claim(ONE, ANNA, "Anna", rename=True, exists=True)
    assert owners.name(ONE, ANNA) == "Anna"
    assert not owned.claim(ONE, BERTA, "Berta", rename=True, exists=True), "the bundle keeps the first owner's name"


def test_everybody_s_stays_everybody_s(owned: OwnedAvatars, owners: AvatarOwners) -> None:
    assert not owned.claim(ONE, ANNA, "mine", rename=True, exists=True)
    assert owners.of(ONE) == {ANNA, SHARED}
    owned.check(ONE, BERTA)
    assert not owned.goes(ONE, ANNA)
    owned.release(ONE, ANNA)
    owned.check(ONE, ANNA)
    assert owned.claim(TWO, "", "house", rename=True, exists=False) and owners.of(TWO) == frozenset()
    owners.add(TWO, ANNA, "")
    owned.claim(TWO, "", "house", rename=True, exists=True)
    assert owners.of(TWO) == {ANNA, SHARED}


def test_room_of_an_owner(owned: OwnedAvatars) -> None:
    owned.claim(ONE, ANNA, "", rename=False, exists=False)
    rows = [row(ONE, ""), row(TWO, "")]
    for quota in (AvatarQuota(1, 1000), AvatarQuota(9, 10)):
        with pytest.raises(AvatarsFullError):
            owned.check_room(rows, ANNA, quota)
        owned.check_room(rows, BERTA, quota)
        owned.check_room(rows, "", quota)
        owned.check_room(rows[1:], ANNA, quota)
    owned.check_room(rows, ANNA, AvatarQuota(2, 11))
    owned.check_room(rows, ANNA, None)
