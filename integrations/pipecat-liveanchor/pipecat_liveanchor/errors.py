"""What a LiveAnchor server refuses, and whether it helps to ask again."""

from __future__ import annotations

import json
from typing import Final

RETRYABLE_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class LiveAnchorServiceError(Exception):
    """Says that the presenter cannot be had.

    Attributes:
        code: The service's name for the problem, such as `no_capacity`; `connection` where there was no answer.
        status: HTTP status; None where there was none.
        retryable: Whether the same request may succeed later.
        retry_after_s: Seconds that the service asks to wait; None where it does not say.
    """

    def __init__(
        self,
        detail: str,
        *,
        code: str = "connection",
        status: int | None = None,
        retryable: bool = True,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.status = status
        self.retryable = retryable
        self.retry_after_s = retry_after_s


def error_of(status: int, body: str, retry_after: str | None = None) -> LiveAnchorServiceError:
    """Read a refusal (RFC 9457, `application/problem+json`); a body of another form is quoted.

    Args:
        status: HTTP status, 400 or more.
        body: Body of the answer.
        retry_after: The header of that name.
    """
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    detail = str(problem.get("detail") or body[:200] or "no explanation")
    wait_s = float(retry_after) if retry_after and retry_after.isdigit() else None
    return LiveAnchorServiceError(
        detail,
        code=str(problem.get("code") or f"http_{status}"),
        status=status,
        retryable=status in RETRYABLE_STATUS,
        retry_after_s=wait_s,
    )
