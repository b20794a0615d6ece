"""The root of every error this project raises on purpose."""

from __future__ import annotations


class LiveAnchorError(Exception):
    """Base of all typed errors.

    Attributes:
        code: Stable machine-readable slug; the last path segment of the problem+json `type`.
        retryable: True when the same call may succeed later without changes.
    """

    code: str = "internal_error"
    retryable: bool = False


class InvalidInputError(LiveAnchorError):
    """A caller handed in something that can never work: HTTP 4xx, exit code 2.

    Args:
        field: Name of the offending field, flag or argument.
        got: What came, shortened, without secrets.
        allowed: What would be accepted.
        detail: One sentence for a person; built from the three above when empty.
    """

    code = "invalid_input"

    def __init__(self, field: str, got: str, allowed: str, detail: str = "") -> None:
        """Keep every argument in `args`, so that the error survives pickling between processes."""
        super().__init__(field, got, allowed, detail)
        self.field = field
        self.got = got
        self.allowed = allowed
        self.detail = detail

    def __str__(self) -> str:
        """Say in one line: the field, what came, what is allowed."""
        return f"{self.field}: {self.detail or f'got {self.got}'} (allowed: {self.allowed})"


class ShapeError(InvalidInputError):
    """An array or tensor of the wrong shape or dtype reached a typed boundary."""

    code = "invalid_shape"


def first_line(error: BaseException, limit: int = 200, *, named: bool = False) -> str:
    """What an error of a library says, in one line; its type's name where it says nothing.

    Args:
        error: The error.
        limit: Most characters of its text.
        named: The type's name goes before the text.
    """
    name, lines = type(error).__name__, str(error).strip().splitlines()
    if not lines:
        return name
    return f"{name}: {lines[0][:limit]}" if named else lines[0][:limit]
