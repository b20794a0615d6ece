"""Notes about presenters: they go with them, those of expired ones some time after, and no copy stays on a node."""

from __future__ import annotations

import os
from pathlib import Path

import fsspec
import pytest

from deployments.host.avatar_commands import ForgetAvatars, Left
from deployments.host.avatar_consents import AvatarConsents
from deployments.host.avatar_notes import AvatarNotes
from deployments.host.avatar_owners import SHARED, AvatarOwners
from deployments.host.avatars import Avatars, open_avatar_store
from deployments.host.mirrored_avatars import MirroredAvatarStore
from deployments.host.node_copies import drop_copies
from engines.weights.home import HOME_ENV
from pipeline.avatars.manifest import BundleStorageError
from pipeline.avatars.store import STALE_AFTER_S, AvatarNotFoundError, AvatarStore, avatars_dir
from tests.support.http_server import small_avatar
from tests.support.manual_clock import ManualClock

ANNA, BERTA = "k0000000000aa", "k0000000000bb"
GONE = "f" * 32
NOON = 1_800_000_000.0


class Place:
    """A store of avatars with its notes."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.store: Avatars = open_avatar_store(uri)
        self.owners = AvatarOwners(uri)
        self.consents = AvatarConsents(uri, lambda: NOON)
        self.clock = ManualClock(NOON)
        self.notes = AvatarNotes(self.store, self.owners, self.consents, self.clock)

    def note(self, avatar_id: str, *owners: str) -> None:
        for owner in owners:
            self.owners.add(avatar_id, owner, "a name")
            self.consents.keep(avatar_id, owner, "she agreed")


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv(HOME_ENV, str(tmp_path / "home"))
    return Place(str(tmp_path / "avatars") if request.param == "folder" else f"memory://notes-{tmp_path.name}/avatars")


def test_notes_of_what_has_expired_go_after_a_while_and_no_others(place: Place) -> None:
    stays = place.store.put(small_avatar("stays", 80)).avatar_id
    fresh = place.store.put(small_avatar("temporary", 81), temporary=True).avatar_id
    for one in (stays, fresh, GONE):
        place.note(one, ANNA)
    written = max(place.owners.changed_at(GONE), place.consents.changed_at(GONE))
    place.clock.now = written + STALE_AFTER_S - 60
    assert place.notes.tidy() == 0, "its avatar may be about to come"
    place.clock.now = written + STALE_AFTER_S + 60
    assert place.notes.tidy() == 1 and place.notes.tidy() == 0
    assert set(place.owners.all()) == set(place.consents.all()) == {stays, fresh}
    assert not [path for path in fsspec.open(place.uri).fs.find(place.uri) if GONE in path]


def test_a_note_that_is_left_over_is_new_again_when_its_presenter_comes_back(tmp_path: Path) -> None:
    from deployments.host.owned_avatars import OwnedAvatars

    place = Place(str(tmp_path / "avatars"))
    place.note(GONE, ANNA)
    os.utime(tmp_path / "avatars" / "owners" / GONE / ANNA, (1, 1))
    OwnedAvatars(place.owners).claim(GONE, ANNA, "", rename=False, exists=False)
    assert place.owners.changed_at(GONE) > NOON - 1e9
    place.owners.drop(GONE, ANNA)
    OwnedAvatars(place.owners).keep(GONE, ANNA, "her name")
    assert place.owners.of(GONE) == {ANNA}


def test_what_is_forgotten(place: Place) -> None:
    own, both, everybodys = (place.store.put(small_avatar(str(shade), shade)).avatar_id for shade in (70, 71, 72))
    place.note(own, ANNA)
    place.note(both, ANNA, BERTA)
    place.note(everybodys, ANNA)
    place.owners.add(everybodys, SHARED, "")
    place.note(GONE, ANNA)
    command = ForgetAvatars(owner=ANNA, dry_run=True)
    would = place.notes.forget(command)
    assert would.presenters == (own,) and set(would.kept) == {both, everybodys} and would.consents == 4
    assert place.notes.forget(ForgetAvatars(owner=ANNA)) == would
    assert not any(ANNA in owners for owners in (place.owners.all() | place.consents.all()).values())
    assert place.owners.of(both) == {BERTA} and len(place.consents.of(both, None)) == 1
    assert {row.avatar_id for row in place.store.list()} == {both, everybodys}
    assert place.notes.forget(ForgetAvatars(avatar_id=both)).presenters == (both,)
    assert place.owners.of(both) == frozenset() and place.consents.of(both, None) == ()
    assert place.notes.forget(ForgetAvatars(owner=ANNA)).presenters == ()


def test_one_that_the_disk_does_not_let_go_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(str(tmp_path / "avatars"))
    first, second = sorted(place.store.put(small_avatar(str(shade), shade)).avatar_id for shade in (70, 71))
    place.note(first, ANNA)
    place.note(second, ANNA)
    delete = place.store.delete

    def refuse(avatar_id: str) -> None:
        if avatar_id == first:
            raise BundleStorageError(avatar_id, "cannot be removed (Read-only file system)")
        delete(avatar_id)

    monkeypatch.setattr(place.store, "delete", refuse)
    found = place.notes.forget(ForgetAvatars(owner=ANNA))
    assert found.presenters == (second,)
    assert [(one.kind, one.name) for one in found.left] == [("presenter", first)] and isinstance(found.left[0], Left)
    assert place.owners.of(first) == {ANNA}, "so that the next run finds it"


def test_copies_of_another_place_are_dropped_from_disk_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_ENV, str(tmp_path / "home"))
    uri = f"memory://copies-{tmp_path.name}/avatars"
    other = MirroredAvatarStore(uri, tmp_path / "another-machine")
    avatar_id, kept = (other.put(small_avatar(str(shade), shade)).avatar_id for shade in (70, 71))
    here = open_avatar_store(uri)
    for one in (avatar_id, kept):
        here.get(one)
    other.delete(avatar_id)
    assert here.get(avatar_id).avatar_id == avatar_id, "a copy knows nothing of the place"
    for _ in range(2):
        drop_copies(uri, [avatar_id])
    with pytest.raises(AvatarNotFoundError):
        here.get(avatar_id)
    assert here.get(kept).avatar_id == kept
    own = AvatarStore(avatars_dir())
    drop_copies("", [kept])
    assert own.get(kept).avatar_id == kept, "where there is one place, nothing in it is a copy"
