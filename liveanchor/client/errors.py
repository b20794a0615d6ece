"""What can go wrong between a program and a service, as types with a code, a message and the field at fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """Base of all errors of the client.

    Args:
        message: One sentence for a person.
        code: Stable slug, the service's own where it answered with a problem document.
        param: Field or argument at fault; None where it is none.
        status: HTTP status; None where no answer came.
        retry_after_s: Seconds to wait before the same call may succeed; None where it is not worth trying again.
        request_id: Names the request in the service's logs; empty where there is none.
        problem: The whole problem document; empty where there is none.
    """

    def __init__(
        self,
        message: str,
        code: str,
        *,
        param: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
        request_id: str = "",
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.status = status
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.problem = dict(problem or {})


class BadArgumentError(ClientError, ValueError):
    """An argument that no service could take; nothing was sent.

    Args:
        param: Name of the argument.
        got: What came, shortened, without secrets.
        allowed: What would be accepted.
    """

    def __init__(self, param: str, got: str, allowed: str) -> None:
        super().__init__(f"{param}: got {got} (allowed: {allowed})", "bad_argument", param=param)
        self.got = got
        self.allowed = allowed


class RefusedError(ClientError):
    """The service said no (4xx): `code` and `message` say why, `param` names the field, `retry_after_s` when to come back."""


class FailedError(ClientError):
    """The service cannot do it now or failed (5xx)."""


class StrangeAnswerError(ClientError):
    """Something answered that is no LiveAnchor, or a proxy in front of one."""


class NoAnswerError(ClientError):
    """No answer came, or it broke off.

    Args:
        message: What the connection said.
        reached: Whether there was a connection at all.
    """

    def __init__(self, message: str, *, reached: bool) -> None:
        super().__init__(message, "connection_broken" if reached else "unreachable", retry_after_s=0.0)
        self.reached = reached


class TooLateError(ClientError, TimeoutError):
    """A video did not end in the time that the caller allowed; it is still being made."""


class VideoFailedError(ClientError):
    """A video ended without a file; `code` and `message` are those of its `error`."""
