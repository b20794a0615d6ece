"""Who may see, use and remove which avatar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from deployments.host.avatar_owners import SHARED, AvatarOwners
from kernels.errors import InvalidInputError
from pipeline.avatars.quota import AvatarQuota, AvatarsFullError
from pipeline.avatars.store import AvatarNotFoundError, AvatarSummary

NOBODY: Final = ""
"""Owner of what is made without a key."""


class AvatarSharedError(InvalidInputError):
    """An avatar that everybody may use is not removed by one of its users."""

    code = "avatar_shared"


class OwnedAvatars:
    """Rules of ownership over the notes of `AvatarOwners`.

    `only` is the one owner whose avatars, and shared ones, a caller sees; None for a caller that sees all.

    Args:
        owners: The notes.
    """

    def __init__(self, owners: AvatarOwners) -> None:
        self._owners = owners

    def check(self, avatar_id: str, only: str | None) -> None:
        """Refuse an avatar that is another owner's, in the words for one that does not exist.

        Raises:
            AvatarNotFoundError: The avatar is not the caller's.
        """
        if only is not None and not _visible(self._owners.of(avatar_id), only):
            raise AvatarNotFoundError("avatar_id", avatar_id, "the id of a registered avatar")

    def shown(self, row: AvatarSummary, only: str | None) -> AvatarSummary:
        """Return what a caller sees of an avatar: its own name for it, where it is its own."""
        own = None if only is None else self._owners.name(row.avatar_id, only)
        return row if own is None else replace(row, name=own)

    def listed(self, rows: Sequence[AvatarSummary], only: str | None) -> list[AvatarSummary]:
        """Return the avatars that a caller sees, by name and id."""
        if only is None:
            return list(rows)
        marks = self._owners.all()
        seen = [row for row in rows if _visible(marks.get(row.avatar_id, ()), only)]
        named = [self.shown(row, only) if only in marks.get(row.avatar_id, ()) else row for row in seen]
        return sorted(named, key=lambda row: (row.name, row.avatar_id))

    def check_room(self, rows: Sequence[AvatarSummary], owner: str, quota: AvatarQuota | None) -> None:
        """Refuse one more avatar to an owner that has as many as one owner may have.

        Raises:
            AvatarsFullError: There is no room for this owner.
        """
        if quota is None or owner == NOBODY:
            return
        marks = self._owners.all()
        own = [row for row in rows if owner in marks.get(row.avatar_id, ())]
        if len(own) >= quota.max_avatars:
            raise AvatarsFullError(f"{len(own)} presenters belong to this key")
        if (held := sum(row.size_bytes for row in own)) >= quota.max_bytes:
            raise AvatarsFullError(f"presenters of this key fill {held} bytes")

    def claim(self, avatar_id: str, owner: str, name: str, rename: bool, exists: bool) -> bool:
        """Note the owner of an avatar that is about to be stored; before that, so that no other owner sees it meanwhile.

        Args:
            avatar_id: The avatar.
            owner: Who stores it; `NOBODY` makes it everybody's.
            name: Its name for it.
            rename: Whether a name that the owner gave it before is replaced.
            exists: Whether the avatar is stored already.

        Returns:
            Whether the owner may also name the avatar for all: it is its own alone, or everybody's.
        """
        marks = self._owners.of(avatar_id)
        if owner == NOBODY:
            if marks:
                self._owners.add(avatar_id, SHARED, "")
            return True
        if exists and not marks:
            self._owners.add(avatar_id, SHARED, "")
        # A note that is left over from an avatar that is gone becomes a new one.
        if rename or not exists or not self._owners.name(avatar_id, owner):
            self._owners.add(avatar_id, owner, name)
        return not exists or marks == {owner}

    def keep(self, avatar_id: str, owner: str, name: str) -> None:
        """Note an owner once more where that was lost, so that what it has stored is not everybody's."""
        if owner != NOBODY and self._owners.name(avatar_id, owner) is None:
            self._owners.add(avatar_id, owner, name)

    def unclaim(self, avatar_id: str, owner: str) -> None:
        """Forget the owner of an avatar that could not be stored."""
        if owner != NOBODY:
            self._owners.drop(avatar_id, owner)

    def goes(self, avatar_id: str, only: str | None) -> bool:
        """Say whether the bundle goes when a caller removes an avatar: no other owner has it.

        Raises:
            AvatarNotFoundError: The avatar is another owner's.
            AvatarSharedError: It is everybody's, and the caller may not remove it.
        """
        if only is None:
            return True
        self.check(avatar_id, only)
        marks = self._owners.of(avatar_id)
        if only not in marks:
            raise AvatarSharedError(
                "avatar_id",
                avatar_id,
                "a presenter that this key has registered",
                "it is shared by all who use this service",
            )
        return marks == {only}

    def release(self, avatar_id: str, owner: str | None) -> None:
        """Forget an owner of an avatar; all of them for None."""
        if owner is None:
            self._owners.forget(avatar_id)
        else:
            self._owners.drop(avatar_id, owner)


def _visible(marks: frozenset[str] | set[str] | tuple[()], only: str) -> bool:
    return not marks or only in marks or SHARED in marks
