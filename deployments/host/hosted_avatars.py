"""The avatars of one host: registered, listed and removed, kept while something here uses them. No Ray."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from deployments.host.avatar_commands import (
    AvatarCommand,
    DeleteAvatar,
    ForgetAvatars,
    GetAvatar,
    ListAvatars,
    ReadConsents,
    ReadPreview,
    RegisterAvatar,
)
from deployments.host.avatar_consents import AvatarConsents
from deployments.host.avatar_notes import AvatarNotes
from deployments.host.avatar_owners import AvatarOwners
from deployments.host.avatars import Avatars, check_family
from deployments.host.avatars_in_use import AvatarsInUse
from deployments.host.command import Answer
from deployments.host.owned_avatars import OwnedAvatars
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.avatars.store import AvatarNotFoundError, AvatarSummary
from pipeline.types import Avatar


class HostedAvatars:
    """Registers, lists, reads and removes avatars for one host. It belongs to one event loop; the work is done in threads.

    Args:
        store: The store that all hosts share.
        in_use: Notes which avatars are used here.
        register: Makes an avatar of a picture's bytes and a name; one call at a time.
        default: Makes the default avatar into the store where it is missing, and answers it; one call at a time.
        gallery: Makes the presenters that the project ships into the store where they are missing; one call at a time.
        family: Family that the stages here can draw.
        owners: Whose the avatars are.
        consents: What was agreed to about them.
        wall_clock: Gives seconds since the epoch.
    """

    def __init__(
        self,
        store: Avatars,
        in_use: AvatarsInUse,
        register: Callable[[bytes, str], Avatar],
        default: Callable[[], Avatar],
        gallery: Callable[[], None],
        family: str,
        owners: AvatarOwners,
        consents: AvatarConsents,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._in_use = in_use
        self._make = register
        self._default = default
        self._gallery = gallery
        self._family = family
        self._owned = OwnedAvatars(owners)
        self._consents = consents
        self._notes = AvatarNotes(store, owners, consents, wall_clock)
        self._making = threading.Lock()
        self._hanging = threading.Lock()  # of its own: a list does not wait for a registration

    async def handle(self, command: AvatarCommand[Answer]) -> Answer:
        """Do what a command asks.

        Raises:
            LiveAnchorError: As the command says.
        """
        try:
            answer: Answer = await asyncio.to_thread(self._do, command)
        except AvatarNotFoundError as error:
            if command.only is None:
                raise
            # in the same words whether it is not there or another owner's
            raise AvatarNotFoundError("avatar_id", error.got, "the id of a registered avatar") from error
        return answer

    def using(self, avatar_id: str | None) -> AbstractContextManager[None]:
        """Keep an avatar from expiring as long as this is open; None stands for the default one, which stays anyway."""
        return self._in_use.using(avatar_id)

    def speaker(self, avatar_id: str | None) -> Avatar:
        """Find the avatar of a job or session and note its use; the default one for None. Takes long: call it in a thread.

        Raises:
            InvalidInputError: No avatar has this id, or the stages here cannot draw it.
        """
        if avatar_id:
            self._store.touch(avatar_id)
        return check_family(self._find(avatar_id), self._family)

    def touch(self, avatar_id: str) -> None:
        """Note that an avatar is used now; errors are those of `AvatarStore.touch`."""
        self._store.touch(avatar_id)

    def _do(self, command: AvatarCommand[Any]) -> Any:
        match command:
            case RegisterAvatar():
                return self._register(command)
            case ListAvatars():
                with self._hanging:
                    self._gallery()
                return self._owned.listed(self._in_use.listed(), command.only)
            case GetAvatar(avatar_id=avatar_id):
                if not avatar_id:
                    return _summary(self._find(None))
                self._owned.check(avatar_id, command.only)
                found = replace(_summary(self._find(avatar_id)), used_at=self._store.used_at(avatar_id))
                return self._owned.shown(found, command.only)
            case ReadPreview():
                self._owned.check(command.avatar_id, command.only)
                return self._store.preview(command.avatar_id)
            case ReadConsents(avatar_id=avatar_id):
                self._owned.check(avatar_id, command.only)
                self._store.used_at(avatar_id)  # raises where it is not there
                return self._consents.of(avatar_id, command.only)
            case DeleteAvatar():
                self._delete(command)
            case ForgetAvatars():
                return self._notes.forget(command)
            case _:  # while the service is changed, another version may ask
                raise InvalidInputError("command", type(command).__name__, "a command of this version")
        return None

    def _register(self, command: RegisterAvatar) -> AvatarSummary:
        """Look for room first: making an avatar takes long."""
        if command.quota is not None:
            self._in_use.try_to_tidy()
            self._store.check_room(command.quota)
        if command.own_quota is not None:
            self._owned.check_room(self._store.list(), command.owner, command.own_quota)
        with self._making:
            avatar = self._make(command.data, command.name)
        avatar_id, owner, exists = avatar.avatar_id, command.owner, self._exists(avatar.avatar_id)
        if command.consent:  # first: there is no moment without it
            self._consents.keep(avatar_id, owner, command.consent)
        names = self._owned.claim(avatar_id, owner, avatar.name, command.rename, exists)
        try:
            stored = self._store.put(avatar, command.rename and names, command.temporary, command.quota)
        except LiveAnchorError:
            if not exists:
                self._owned.unclaim(avatar_id, owner)
                self._consents.drop(avatar_id, owner)
            raise
        self._owned.keep(avatar_id, owner, avatar.name)  # an old note may have been tidied away since
        return self._owned.shown(_summary(stored), owner or None)

    def tidy_notes(self) -> None:
        """Remove what is noted about avatars that are gone.

        Raises:
            LiveAnchorError: The store does not answer.
        """
        self._notes.tidy()

    def _exists(self, avatar_id: str) -> bool:
        try:
            self._store.used_at(avatar_id)
        except AvatarNotFoundError:
            return False
        return True

    def _delete(self, command: DeleteAvatar) -> None:
        if command.only is not None:
            self._store.used_at(command.avatar_id)  # raises where it is not there
        goes = self._owned.goes(command.avatar_id, command.only)
        if goes:  # first, since without owners it would be everybody's
            self._store.delete(command.avatar_id)
        self._owned.release(command.avatar_id, None if goes else command.only)
        self._consents.drop(command.avatar_id, None if goes else command.only)

    def _find(self, avatar_id: str | None) -> Avatar:
        if avatar_id:
            return self._store.get(avatar_id)
        with self._making:
            return self._default()


def _summary(avatar: Avatar) -> AvatarSummary:
    height, width = avatar.canvas_rgb.shape[:2]
    return AvatarSummary(avatar.avatar_id, avatar.name, avatar.family, width, height)
