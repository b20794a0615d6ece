"""The avatar store of a cluster: a folder that all nodes see, or any fsspec URI with a local copy on each node."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from kernels.errors import InvalidInputError
from pipeline.avatars.quota import AvatarQuota
from pipeline.avatars.store import AvatarStore, AvatarSummary, avatars_dir
from pipeline.families import find_family
from pipeline.family import AvatarMaker
from pipeline.types import Avatar


class Avatars(Protocol):
    """Keeps avatars for all replicas; its methods raise the errors of `pipeline.avatars.store.AvatarStore`."""

    def check_room(self, quota: AvatarQuota) -> None:
        """Raise AvatarsFullError where one more avatar could not come in now."""
        ...

    def put(
        self, avatar: Avatar, rename: bool = True, temporary: bool = False, quota: AvatarQuota | None = None
    ) -> Avatar:
        """Store an avatar; with `rename` False an avatar that has a name keeps it; a `temporary` one expires unused."""
        ...

    def get(self, avatar_id: str) -> Avatar:
        """Load an avatar."""
        ...

    def list(self) -> list[AvatarSummary]:
        """All avatars."""
        ...

    def touch(self, avatar_id: str) -> None:
        """Note that an avatar is in use now."""
        ...

    def used_at(self, avatar_id: str) -> float | None:
        """Tell when a temporary avatar was last used, in seconds since the epoch; None for an avatar that stays."""
        ...

    def expire(self, unused_s: float) -> int:
        """Remove the temporary avatars that were not used for `unused_s` seconds, and return how many those were."""
        ...

    def discard(self, avatar_id: str, used_at: float) -> bool:
        """Remove a temporary avatar if it was not used since `used_at`, and return whether it was removed."""
        ...

    def delete(self, avatar_id: str) -> None:
        """Remove an avatar."""
        ...

    def preview(self, avatar_id: str) -> bytes:
        """Read the JPEG preview of an avatar."""
        ...


def open_avatar_store(uri: str) -> Avatars:
    """Open a store.

    Args:
        uri: Empty for LIVEANCHOR_HOME; a path or `file://` for a folder, which all nodes must mount where there are several; any
            other fsspec URI, such as `s3://bucket/avatars`, is mirrored into LIVEANCHOR_HOME bundle by bundle, on demand.
    """
    if is_mirrored(uri):
        from deployments.host.mirrored_avatars import MirroredAvatarStore

        return MirroredAvatarStore(uri, avatars_dir())
    return AvatarStore(Path(uri.removeprefix("file://")).expanduser() if uri else avatars_dir())


def is_mirrored(uri: str) -> bool:
    """Whether avatars at a place, as `open_avatar_store` takes it, are copied to each node that uses them."""
    return "://" in uri and not uri.startswith("file://")


def default_of(store: Avatars, maker: AvatarMaker) -> Avatar:
    """Return the family's default presenter, which is put into the store where it is missing."""
    return maker.default(cast(AvatarStore, store))  # it only asks for put, get, delete and root


def gallery_of(store: Avatars, family: str) -> None:
    """Put the presenters that the project ships into the store where they are missing."""
    find_family(family).make_gallery(cast(AvatarStore, store))  # it only asks for put, get, delete and root


def check_family(avatar: Avatar, family: str) -> Avatar:
    """Return the avatar itself, if the family that runs here can draw it.

    Raises:
        InvalidInputError: The avatar belongs to another family.
    """
    if avatar.family != family:
        who = avatar.name or avatar.avatar_id
        detail = f"{who} was registered for {avatar.family}, {family} runs here: register it again"
        raise InvalidInputError("avatar_id", f"an avatar of the family {avatar.family}", f"one of {family}", detail)
    return avatar
