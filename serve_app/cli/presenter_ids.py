"""Ids of presenters as people type them: what is wrong with one is said in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kernels.errors import InvalidInputError

WHERE_IDS_ARE = "`liveanchor avatar list` shows the ids"


@contextmanager
def presenter_named_by(flag: str) -> Iterator[None]:
    """Say which flag or argument held the id that cannot be used inside this block, and where ids are to be had.

    Raises:
        InvalidInputError: What came out of the block about `avatar_id`, renamed; everything else as it was.
    """
    try:
        yield
    except InvalidInputError as error:
        if error.field == "avatar_id":
            error.field = flag
            error.allowed = f"{error.allowed}; {WHERE_IDS_ARE}"
        raise
