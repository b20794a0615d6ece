"""What can be wrong with a request before anybody looks at its speech or its picture."""

from __future__ import annotations

from kernels.errors import InvalidInputError, LiveAnchorError


class MissingFieldError(InvalidInputError):
    """A field that must be there is not."""

    code = "missing_field"


class UnknownFieldError(InvalidInputError):
    """A field that no route knows; most often a misspelt one."""

    code = "unknown_field"


class DuplicateFieldError(InvalidInputError):
    """A field came twice."""

    code = "duplicate_field"


class ConflictingFieldsError(InvalidInputError):
    """Two fields that exclude each other."""

    code = "conflicting_fields"


class MisplacedFieldError(InvalidInputError):
    """A field in the address instead of the body."""

    code = "misplaced_field"


class FieldTooLargeError(InvalidInputError):
    """More bytes in one field than it may have."""

    code = "field_too_large"


class BodyTooLargeError(InvalidInputError):
    """More bytes in the whole request than allowed."""

    code = "body_too_large"


class BodyMalformedError(InvalidInputError):
    """The body is not what its content type says, or it is cut short."""

    code = "body_malformed"


class UploadTooSlowError(InvalidInputError):
    """The body stopped coming, or takes too long; its place is needed by others."""

    code = "upload_too_slow"


class UnsupportedBodyError(InvalidInputError):
    """A content type that the route does not read."""

    code = "unsupported_content_type"


class RangeError(InvalidInputError):
    """A byte range that lies outside the file.

    Args:
        got: The header's value.
        size: Bytes of the file.
    """

    code = "range_not_satisfiable"

    def __init__(self, got: str, size: int) -> None:
        super().__init__("Range", got, f"bytes within 0-{max(size - 1, 0)}")
        self.args = (got, size)
        self.size = size


class BusyError(LiveAnchorError):
    """This server has as much work as it takes.

    Args:
        what: Of which there is too much.
    """

    code = "overloaded"
    retryable = True

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        """One line with the reason."""
        return f"this server has {self.what}; try again later"
