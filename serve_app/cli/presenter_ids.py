"""Presenters as people name them: by id or, where one only has it, by name; refusals speak the words of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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


def presenter_id(typed: str, flag: str, known: Callable[[], Iterable[tuple[str, str]]]) -> str:
    """The id of the presenter that a person means.

    Args:
        typed: An id, or a name in any case.
        flag: Where it was typed, for messages.
        known: Gives id and name of every presenter; asked only where no id was typed.

    Raises:
        InvalidInputError: No presenter has the name, or several have it.
    """
    from pipeline.avatars.name import presenter_named
    from pipeline.avatars.store import check_avatar_id

    try:
        return check_avatar_id(typed)
    except InvalidInputError:
        return presenter_named(typed, flag, known(), f"; {WHERE_IDS_ARE}")


def presenters_here() -> list[tuple[str, str]]:
    """Id and name of every presenter that this machine knows."""
    from pipeline.session.local_job import list_presenters

    return [(one.avatar_id, one.name) for one in list_presenters()]
