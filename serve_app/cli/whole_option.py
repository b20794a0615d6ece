"""Options that take a whole number, spelled in any way: 8, 8.0 or 8e0."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernels.errors import InvalidInputError
from pipeline.numbers import whole_number


def whole(flag: str, choices: Sequence[int]) -> Callable[[object], int]:
    """What reads such an option, for `typer.Option(parser=...)`.

    Args:
        flag: The option's name, for messages.
        choices: The numbers allowed: a range, or a few.
    """
    listed = f"a whole number, {choices[0]} to {choices[-1]}" if isinstance(choices, range) else str([*choices])[1:-1]

    def integer(value: object) -> int:
        found = whole_number(value)
        if found is None or found not in choices:
            raise InvalidInputError(flag, str(value)[:80], listed)
        return found

    return integer
