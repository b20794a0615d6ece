"""The avatars of live sessions, with their still pictures as they are encoded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.bounded_cache import BoundedCache
from pipeline.types import Avatar, Nv12Canvas

AVATAR_CACHE_BYTES: Final = 256 * 2**20


class LiveAvatars:
    """Reads each avatar from the store once and keeps it with its still picture.

    Args:
        presenter: Finds an avatar by its id, the default one for None; called in a thread.
        colour: Colour matrix of the pictures, "bt709" or "bt601".
        cache_bytes: Bound on the memory of what is kept, in bytes; the newest avatar always stays.
    """

    def __init__(
        self, presenter: Callable[[str | None], Avatar], colour: str, cache_bytes: int = AVATAR_CACHE_BYTES
    ) -> None:
        self._presenter = presenter
        self._colour = colour
        self._cache: BoundedCache[str, tuple[Avatar, Nv12Canvas]] = BoundedCache(
            cache_bytes, lambda found: 3 * found[0].canvas_rgb.nbytes
        )
        self._default_id = ""

    async def find(self, avatar_id: str | None) -> tuple[Avatar, Nv12Canvas]:
        """An avatar and its still picture; the default avatar for None.

        Raises:
            InvalidInputError: There is no such avatar, or the stages here cannot draw it.
        """
        wanted = avatar_id or self._default_id
        found = self._cache.find(wanted) if wanted else None
        if found is None:
            found = await asyncio.to_thread(self._load, avatar_id)
            if not avatar_id:
                self._default_id = found[0].avatar_id
            loaded = found
            self._cache.get_or_build(found[0].avatar_id, lambda: loaded)
        return found

    def _load(self, avatar_id: str | None) -> tuple[Avatar, Nv12Canvas]:
        avatar = self._presenter(avatar_id)
        return avatar, Nv12Canvas(*rgb_to_nv12(avatar.canvas_rgb, colour=self._colour))
