"""Avatars' own pictures on a host, over which it lays what the renderer painted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pipeline.bounded_cache import BoundedCache
from pipeline.families import find_family
from pipeline.session.overlaid import OwnPictures
from pipeline.types import Avatar

_CACHE_BYTES: Final = 512 * 2**20


class HostedOwnPictures:
    """Opens them once per avatar and colour standard. Safe to share between threads.

    Args:
        load_avatar: Id -> avatar; raises a typed error for an unknown id.
    """

    def __init__(self, load_avatar: Callable[[str], Avatar]) -> None:
        self._load_avatar = load_avatar
        self._opened: BoundedCache[tuple[str, str], OwnPictures] = BoundedCache(
            _CACHE_BYTES, lambda pictures: pictures.size_bytes
        )

    def __call__(self, avatar_id: str, colour: str) -> OwnPictures:
        """Own pictures of an avatar; takes long where it is not open yet.

        Raises:
            LiveAnchorError: The avatar cannot be loaded.
        """

        def open_now() -> OwnPictures:
            avatar = self._load_avatar(avatar_id)
            return find_family(avatar.family).own_pictures(avatar, colour)

        return self._opened.get_or_build((avatar_id, colour), open_now)
