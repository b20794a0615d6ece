"""The errors of a shared store that does not answer, or has no room."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kernels.errors import LiveAnchorError, first_line


class StoreUnreachableError(LiveAnchorError):
    """A shared store of avatars or results does not answer.

    Args:
        uri: Which store.
        reason: What it said.
    """

    code = "store_unreachable"
    retryable = True

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)
        self.uri = uri
        self.reason = reason

    def __str__(self) -> str:
        """Say it in one line, with the store and its answer."""
        return f"the store {self.uri} does not answer: {self.reason}"


class StoreFullError(StoreUnreachableError):
    """A shared store of avatars or results has no room left."""

    code = "store_full"
    retryable = False

    def __str__(self) -> str:
        """Say it in one line, with the store and its answer."""
        return f"the store {self.uri} has no room: {self.reason}"


_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def store_error(uri: str, error: OSError) -> StoreUnreachableError:
    """What a store has raised, as one of the errors above."""
    kind = StoreFullError if error.errno in _FULL else StoreUnreachableError
    return kind(uri, error.strerror or first_line(error))


@contextmanager
def reaching(uri: str) -> Iterator[None]:
    """Turn what a driver raises within the block into one of the errors above; a file that is not there stays one.

    Args:
        uri: Which store.

    Raises:
        StoreUnreachableError: The store does not answer, or has no room.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise store_error(uri, error) from error
