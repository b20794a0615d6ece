"""What is noted about avatars next to their bundles, owners and consent together: removed with them, or some time after."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from deployments.host.avatar_commands import ForgetAvatars, Forgotten, Left
from deployments.host.avatar_consents import AvatarConsents
from deployments.host.avatar_owners import SHARED, AvatarOwners
from deployments.host.avatars import Avatars
from kernels.errors import LiveAnchorError
from pipeline.avatars.store import STALE_AFTER_S, AvatarNotFoundError


class AvatarNotes:
    """Knows all notes about avatars.

    Args:
        store: The avatars.
        owners: Whose they are.
        consents: What was agreed to about them.
        wall_clock: Seconds since the epoch.
    """

    def __init__(
        self, store: Avatars, owners: AvatarOwners, consents: AvatarConsents, wall_clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._owners = owners
        self._consents = consents
        self._wall_clock = wall_clock

    def tidy(self) -> int:
        """Remove the notes about avatars that are gone, as expired ones are; what was noted lately may wait for its avatar.

        Returns:
            Number of avatars whose notes went.

        Raises:
            LiveAnchorError: The place does not answer.
        """
        noted = self._owners.all().keys() | self._consents.all().keys()
        gone = [one for one in noted - {row.avatar_id for row in self._store.list()} if not self._is_there(one)]
        before, removed = self._wall_clock() - STALE_AFTER_S, 0
        for avatar_id in gone:
            newest = max(self._owners.changed_at(avatar_id), self._consents.changed_at(avatar_id))
            if newest < before and not self._is_there(avatar_id):
                self._drop(avatar_id, None)
                removed += 1
        return removed

    def forget(self, command: ForgetAvatars) -> Forgotten:
        """Remove what a command names; what cannot be removed is told, and does not keep the rest.

        Raises:
            LiveAnchorError: The place does not answer.
        """
        owned, agreed = self._owners.all(), self._consents.all()
        found = Forgotten()
        for avatar_id in sorted(self._meant(command, owned, agreed)):
            try:
                one = self._forget_one(command, avatar_id, owned.get(avatar_id, set()), agreed.get(avatar_id, set()))
            except LiveAnchorError as error:
                one = Forgotten(left=(Left("presenter", avatar_id, str(error)),))
            found = Forgotten(
                found.presenters + one.presenters,
                found.kept + one.kept,
                found.consents + one.consents,
                found.left + one.left,
            )
        return found

    @staticmethod
    def _meant(command: ForgetAvatars, *notes: dict[str, set[str]]) -> Collection[str]:
        if command.avatar_id:
            return {command.avatar_id}
        return {avatar_id for one in notes for avatar_id, owners in one.items() if command.owner in owners}

    def _forget_one(self, command: ForgetAvatars, avatar_id: str, owned: set[str], agreed: set[str]) -> Forgotten:
        owner = command.owner or None
        there = self._is_there(avatar_id)
        goes = owner is None or owned == {owner}
        if not command.dry_run:
            if there and goes:  # first, since without owners it would be everybody's
                with suppress(AvatarNotFoundError):  # it was a copy alone, or another call was faster
                    self._store.delete(avatar_id)
            self._drop(avatar_id, None if goes else owner)
        statements = len(agreed if goes else agreed & {owner or SHARED})
        return Forgotten((avatar_id,) if there and goes else (), (avatar_id,) if there and not goes else (), statements)

    def _drop(self, avatar_id: str, owner: str | None) -> None:
        if owner is None:
            self._owners.forget(avatar_id)
        else:
            self._owners.drop(avatar_id, owner)
        self._consents.drop(avatar_id, owner)

    def _is_there(self, avatar_id: str) -> bool:
        try:
            self._store.used_at(avatar_id)
        except AvatarNotFoundError:
            return False
        return True
