"""The avatar store of a cluster: a folder that all nodes see, or any fsspec URI with a local copy beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from kernels.errors import InvalidInputError
from pipeline.avatars.quota import AvatarQuota
from pipeline.avatars.store import AvatarStore, AvatarSummary, avatars_dir
from pipeline.family import AvatarMaker
from pipeline.types import Avatar


class Avatars(Protocol):
    """What replicas need of a store; see `pipeline.avatars.store.AvatarStore` for errors."""

    def check_room(self, quota: AvatarQuota) -> None:
        """See whether one more avatar could come in now."""
        ...

    def put(
        self, avatar: Avatar, rename: bool = True, temporary: bool = False, quota: AvatarQuota | None = None
    ) -> Avatar:
        """Store an avatar; with `rename` False one that has a name keeps it, a `temporary` one need not stay."""
        ...

    def get(self, avatar_id: str) -> Avatar:
        """Load an avatar."""
        ...

    def list(self) -> list[AvatarSummary]:
        """All avatars."""
        ...

    def touch(self, avatar_id: str) -> None:
        """Note that somebody uses an avatar now."""
        ...

    def used_at(self, avatar_id: str) -> float | None:
        """When a temporary avatar was last used; None for one that stays."""
        ...

    def expire(self, unused_s: float) -> int:
        """Remove the temporary avatars that nobody has used for so long."""
        ...

    def discard(self, avatar_id: str, used_at: float) -> bool:
        """Remove a temporary avatar that nobody has used since."""
        ...

    def delete(self, avatar_id: str) -> None:
        """Remove an avatar."""
        ...

    def preview(self, avatar_id: str) -> bytes:
        """A JPEG."""
        ...


def open_avatar_store(uri: str) -> Avatars:
    """Open a store.

    Args:
        uri: Empty for LIVEANCHOR_HOME; a path or `file://` for a folder (on several nodes: one that all of them mount); any other
            fsspec URI, such as `s3://bucket/avatars`, is mirrored into LIVEANCHOR_HOME bundle by bundle, on demand.
    """
    if not uri:
        return AvatarStore(avatars_dir())
    if uri.startswith("file://") or "://" not in uri:
        return AvatarStore(Path(uri.removeprefix("file://")).expanduser())
    from deployments.host.mirrored_avatars import MirroredAvatarStore

    return MirroredAvatarStore(uri, avatars_dir())


def default_of(store: Avatars, maker: AvatarMaker) -> Avatar:
    """The family's default presenter, made into the store where it is missing."""
    return maker.default(cast(AvatarStore, store))  # it only asks for put, get, delete and root


def check_family(avatar: Avatar, family: str) -> Avatar:
    """The avatar itself, if the family that runs here can draw it.

    Raises:
        InvalidInputError: It cannot.
    """
    if avatar.family != family:
        who = avatar.name or avatar.avatar_id
        detail = f"{who} was registered for {avatar.family}, {family} runs here: register it again"
        raise InvalidInputError("avatar_id", f"an avatar of the family {avatar.family}", f"one of {family}", detail)
    return avatar
