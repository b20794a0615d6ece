"""How much a store of avatars may hold, and which temporary ones make room for one more."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernels.errors import LiveAnchorError
from pipeline.avatars.manifest import BundleError, BundleStorageError

IN_USE_S: Final = 180.0
"""Seconds since its last use within which a temporary avatar counts as in use; a user notes its use more often than that."""
LOCK_FILE: Final = ".lock"


class AvatarsFullError(LiveAnchorError):
    """As many avatars are registered as the operator allows, and all of them stay or are in use.

    Args:
        what: How much of which there is.
    """

    code = "avatars_full"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        """Say in one line which limit was reached."""
        return f"{self.what}, the most that there may be"


@dataclass(frozen=True)
class AvatarQuota:
    """Bounds on a store: one more avatar comes in while both are not reached.

    Attributes:
        max_avatars: Number of avatars, temporary ones included.
        max_bytes: Bytes of all bundles.
    """

    max_avatars: int
    max_bytes: int


@dataclass(frozen=True)
class HeldAvatar:
    """What an avatar takes of the quota.

    Attributes:
        avatar_id: Its id.
        size_bytes: Bytes of its bundle.
        used_at: Second since the epoch of the last use of a temporary one; None for one that stays.
    """

    avatar_id: str
    size_bytes: int
    used_at: float | None


def leaving(
    held: Sequence[HeldAvatar], quota: AvatarQuota, now: float, stuck: frozenset[str] = frozenset()
) -> list[HeldAvatar]:
    """The temporary avatars that have to go before one more comes, the longest unused first; empty where there is room.

    Args:
        held: All avatars of the store.
        quota: Its bounds.
        now: Seconds since the epoch.
        stuck: Ids of avatars that cannot be removed.

    Raises:
        AvatarsFullError: There would not be room although all of them went.
    """
    unused = sorted(
        (one.used_at, one.avatar_id, one)
        for one in held
        if one.used_at is not None and one.used_at < now - IN_USE_S and one.avatar_id not in stuck
    )
    count, size_bytes = len(held), sum(one.size_bytes for one in held)
    going: list[HeldAvatar] = []
    while count >= quota.max_avatars or size_bytes >= quota.max_bytes:
        if len(going) == len(unused):
            full = count >= quota.max_avatars
            raise AvatarsFullError(
                f"{count} presenters are registered" if full else f"presenters fill {size_bytes} bytes"
            )
        going.append(unused[len(going)][2])
        count, size_bytes = count - 1, size_bytes - going[-1].size_bytes
    return going


def make_room(
    held: Callable[[], Sequence[HeldAvatar]],
    discard: Callable[[str, float], bool],
    quota: AvatarQuota,
    now: float,
) -> None:
    """Remove temporary avatars until one more may come in. One that is used meanwhile stays, and another one goes.

    Args:
        held: Lists the avatars of the store.
        discard: Removes a temporary avatar that was not used since a second.
        quota: Bounds of the store.
        now: Seconds since the epoch.

    Raises:
        AvatarsFullError: There is no room.
    """
    stuck: set[str] = set()
    while going := leaving(held(), quota, now, frozenset(stuck)):
        for one in going:
            try:
                discard(one.avatar_id, one.used_at or 0.0)
            except BundleError:  # the disk does not let it go
                stuck.add(one.avatar_id)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other threads and processes out of this block as long as it runs; the folder must be there.

    Raises:
        BundleStorageError: The folder cannot be written.
    """
    path = folder / LOCK_FILE
    try:
        file = path.open("a")
    except OSError as error:
        raise BundleStorageError(str(path), f"cannot be written ({error.strerror})") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
