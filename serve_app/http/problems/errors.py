"""Errors of a request that are found before its speech or its picture is looked at."""

from __future__ import annotations

from kernels.errors import InvalidInputError, LiveAnchorError


class MissingFieldError(InvalidInputError):
    """A field that must be there is missing."""

    code = "missing_field"


class UnknownFieldError(InvalidInputError):
    """A field came that the route does not know, most often because it is misspelt."""

    code = "unknown_field"


class DuplicateFieldError(InvalidInputError):
    """A field came twice."""

    code = "duplicate_field"


class ConflictingFieldsError(InvalidInputError):
    """Two fields came that exclude each other."""

    code = "conflicting_fields"


class MisplacedFieldError(InvalidInputError):
    """A field of the body came in the address."""

    code = "misplaced_field"


class FieldTooLargeError(InvalidInputError):
    """A field has more bytes than it may have."""

    code = "field_too_large"


class BodyTooLargeError(InvalidInputError):
    """The whole request has more bytes than allowed."""

    code = "body_too_large"


class BodyMalformedError(InvalidInputError):
    """The body is not what its content type says, or it is cut short."""

    code = "body_malformed"


class UploadTooSlowError(InvalidInputError):
    """The body stopped coming, or takes too long; other requests need its place."""

    code = "upload_too_slow"


class UnsupportedBodyError(InvalidInputError):
    """The body has a content type that the route does not read."""

    code = "unsupported_content_type"


class RangeError(InvalidInputError):
    """The byte range lies outside the file.

    Args:
        got: Value of the header `Range`.
        size: Size of the file in bytes.
    """

    code = "range_not_satisfiable"

    def __init__(self, got: str, size: int) -> None:
        super().__init__("Range", got, f"bytes within 0-{max(size - 1, 0)}")
        self.args = (got, size)
        self.size = size


class BusyError(LiveAnchorError):
    """This server has as much work as it takes.

    Args:
        what: Says what there is too much of, such as "as many uploads in memory as it takes"; follows "this server has".
    """

    code = "overloaded"
    retryable = True

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        """Say in one line what there is too much of."""
        return f"this server has {self.what}; try again later"


class AccessError(InvalidInputError):
    """A request whose caller may not do this.

    Attributes:
        challenge: Value of the header `WWW-Authenticate` (RFC 6750, section 3).
    """

    challenge = 'Bearer realm="liveanchor"'


class KeyMissingError(AccessError):
    """The request shows no key."""

    code = "key_missing"

    def __init__(self) -> None:
        super().__init__("Authorization", "nothing", "Bearer and an API key, or a session token")
        self.args = ()


class KeyInvalidError(AccessError):
    """The request shows something that opens nothing. What it was is said nowhere."""

    code = "key_invalid"
    challenge = 'Bearer realm="liveanchor", error="invalid_token"'

    def __init__(self) -> None:
        super().__init__("Authorization", "a key or token that is not valid", "Bearer and a key that is valid")
        self.args = ()


class ScopeMissingError(AccessError):
    """The key is valid, and does not allow this.

    Args:
        scope: Scope that would.
    """

    code = "scope_missing"

    def __init__(self, scope: str) -> None:
        super().__init__("Authorization", f"a key without the scope {scope}", f"a key with the scope {scope}")
        self.args = (scope,)
        self.scope = scope
        self.challenge = f'Bearer realm="liveanchor", error="insufficient_scope", scope="{scope}"'


class KeysOffError(InvalidInputError):
    """This service needs no keys, so there is nothing to exchange."""

    code = "keys_off"


class QuotaExceededError(InvalidInputError):
    """A caller asks for more than one caller may have.

    Args:
        policy: Name of the limit.
        quota: How much it allows.
        what: Says of what, such as "at once".
        retry_after_s: Seconds after which it is worth asking again.
    """

    code = "quota_exceeded"

    def __init__(self, policy: str, quota: int, what: str, retry_after_s: int) -> None:
        super().__init__(policy, f"more than {quota} {what}", f"at most {quota} {what}")
        self.args = (policy, quota, what, retry_after_s)
        self.policy = policy
        self.retry_after_s = retry_after_s
