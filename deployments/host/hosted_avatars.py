"""The avatars of one host: registered, listed and removed, kept while something here uses them. No Ray."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from deployments.host.avatar_commands import (
    AvatarCommand,
    DeleteAvatar,
    GetAvatar,
    ListAvatars,
    ReadPreview,
    RegisterAvatar,
)
from deployments.host.avatars import Avatars, check_family
from deployments.host.avatars_in_use import AvatarsInUse
from deployments.host.command import Answer
from kernels.errors import InvalidInputError
from pipeline.avatars.store import AvatarSummary
from pipeline.types import Avatar


class HostedAvatars:
    """Registers, lists, reads and removes avatars for one host. It belongs to one event loop; the work is done in threads.

    Args:
        store: The store that all hosts share.
        in_use: Notes which avatars are used here.
        register: Makes an avatar of a picture's bytes and a name; one call at a time.
        default: Makes the default avatar into the store where it is missing, and answers it; one call at a time.
        family: Family that the stages here can draw.
    """

    def __init__(
        self,
        store: Avatars,
        in_use: AvatarsInUse,
        register: Callable[[bytes, str], Avatar],
        default: Callable[[], Avatar],
        family: str,
    ) -> None:
        self._store = store
        self._in_use = in_use
        self._make = register
        self._default = default
        self._family = family
        self._making = threading.Lock()

    async def handle(self, command: AvatarCommand[Answer]) -> Answer:
        """Do what a command asks.

        Raises:
            LiveAnchorError: As the command says.
        """
        answer: Answer = await asyncio.to_thread(self._do, command)
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
                return self._in_use.listed()
            case GetAvatar(avatar_id=avatar_id):
                found = _summary(self._find(avatar_id or None))
                return replace(found, used_at=self._store.used_at(avatar_id)) if avatar_id else found
            case ReadPreview():
                return self._store.preview(command.avatar_id)
            case DeleteAvatar():
                self._store.delete(command.avatar_id)
            case _:  # while the service is changed, another version may ask
                raise InvalidInputError("command", type(command).__name__, "a command of this version")
        return None

    def _register(self, command: RegisterAvatar) -> AvatarSummary:
        """Look for room first: making an avatar takes long."""
        if command.quota is not None:
            self._in_use.try_to_tidy()
            self._store.check_room(command.quota)
        with self._making:
            avatar = self._make(command.data, command.name)
        return _summary(self._store.put(avatar, command.rename, command.temporary, command.quota))

    def _find(self, avatar_id: str | None) -> Avatar:
        if avatar_id:
            return self._store.get(avatar_id)
        with self._making:
            return self._default()


def _summary(avatar: Avatar) -> AvatarSummary:
    height, width = avatar.canvas_rgb.shape[:2]
    return AvatarSummary(avatar.avatar_id, avatar.name, avatar.family, width, height)
