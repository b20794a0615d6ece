"""One request as a value, and how its answer is read: what both clients share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import httpx

from liveanchor.client.errors import (
    BadArgumentError,
    ClientError,
    FailedError,
    NoAnswerError,
    RefusedError,
    StrangeAnswerError,
)

T = TypeVar("T")
Upload = Path | bytes
"""A file's path, or its bytes."""
PROBLEM: Final = "application/problem+json"
VIDEO: Final = "video/mp4"
TIMEOUT: Final = httpx.Timeout(60.0, connect=10.0)
"""Seconds: a service that is there takes a connection at once."""
PATIENT: Final = httpx.Timeout(6 * 3600.0, connect=10.0)
_SHOWN: Final = 100
_ELSEWHERE: Final = 307


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request.

    Attributes:
        method: HTTP method.
        path: Route, from its slash on.
        read: Makes the result of an answer below 400.
        params: What stands behind the question mark.
        json: Body as JSON.
        fields: Fields of a form; empty ones are left out.
        uploads: Files of a form.
        headers: Further headers.
        patient: Whether the answer may take hours, as that to work does.
        link: Address in an object store where the file lies; it is asked there, and sent nothing of the caller's.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    uploads: Mapping[str, Upload] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    patient: bool = False
    link: str = ""

    def linked(self, answer: httpx.Response) -> Call[T] | None:
        """The request for a file that lies elsewhere, as 307 tells with `stores.results_links`; None where this is no such answer.

        Raises:
            StrangeAnswerError: It tells no address.
        """
        if self.link or self.method != "GET" or answer.status_code != _ELSEWHERE:
            return None
        try:
            link = httpx.URL(answer.headers.get("location", ""))
        except httpx.InvalidURL:
            link = httpx.URL()
        if link.scheme not in ("http", "https") or not link.host:
            raise StrangeAnswerError(f"{_ELSEWHERE} to no address", "no_liveanchor", status=_ELSEWHERE)
        return replace(self, link=str(link))

    def arguments(self, url: str, headers: Mapping[str, str], stack: ExitStack) -> dict[str, Any]:
        """What httpx sends; files stay open as long as the stack.

        Args:
            url: Address of the service.
            headers: Those of the caller, such as its key.
            stack: Closes files.

        Raises:
            OSError: A file cannot be read.
        """
        if self.link:
            return {"method": self.method, "url": self.link, "timeout": PATIENT, "auth": None}
        parts: dict[str, Any] = {name: (None, value) for name, value in self.fields.items() if value}
        for name, upload in self.uploads.items():
            parts[name] = (
                (name, upload) if isinstance(upload, bytes) else (upload.name, stack.enter_context(upload.open("rb")))
            )
        found: dict[str, Any] = {
            "method": self.method,
            "url": url + self.path,
            "headers": {**self.headers, **headers},
            "timeout": PATIENT if self.patient else TIMEOUT,
        }
        if self.params:
            found["params"] = dict(self.params)
        if parts:
            found["files"] = parts
        if self.json is not None:
            found["json"] = dict(self.json)
        return found


def result_of(call: Call[T], answer: httpx.Response) -> T:
    """Read an answer whose body is here.

    Raises:
        ClientError: It is an error, or nothing that a LiveAnchor answers.
    """
    check(answer)
    try:
        return call.read(answer)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, ClientError):
            raise
        kind = _kind(answer) or "something without a type"
        raise StrangeAnswerError(
            f"its answer to {call.method} {call.path} cannot be read: {kind}",
            "no_liveanchor",
            status=answer.status_code,
        ) from error


def check(answer: httpx.Response) -> None:
    """Raise what an answer of 400 and above means; its body must be here.

    Raises:
        RefusedError: 4xx with a problem document.
        FailedError: 5xx with one.
        StrangeAnswerError: Without one.
    """
    if not answer.is_error:
        return
    status = answer.status_code
    try:
        problem = json.loads(answer.text) if _kind(answer) == PROBLEM else None
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        kind = _kind(answer)
        said = " ".join(answer.text[:_SHOWN].split()) if kind == "text/plain" else ""
        said = said or f"{answer.reason_phrase}, {kind or 'no type'}"
        raise StrangeAnswerError(f"{status}, {said}", "no_liveanchor", status=status)
    raise (RefusedError if status < 500 else FailedError)(
        str(problem.get("detail") or problem.get("title") or status),
        str(problem.get("code", "unknown")),
        param=problem.get("field"),
        status=status,
        retry_after_s=retry_after_of(answer) if status in (409, 429, 503) else None,
        request_id=str(problem.get("request_id", "")),
        problem=problem,
    )


def check_video(answer: httpx.Response) -> None:
    """Raise StrangeAnswerError unless an mp4 follows."""
    if (kind := answer.headers.get("content-type", "")) != VIDEO:
        said = f"{kind or 'something without a type'}, not {VIDEO}"
        raise StrangeAnswerError(said, "no_liveanchor", status=answer.status_code)


def retry_after_of(answer: httpx.Response) -> float:
    """Seconds that `Retry-After` asks for; 0 without one."""
    text = str(answer.headers.get("retry-after", ""))
    return float(text) if text.isascii() and text.isdigit() else 0.0


def in_path(value: str, param: str) -> str:
    """An id, which becomes a part of an address.

    Raises:
        BadArgumentError: It cannot be one.
    """
    if not (value.isascii() and value.replace("_", "").replace("-", "").replace(".", "").isalnum()):
        raise BadArgumentError(param, value[:60] or "nothing", "an id as the service gives it")
    return value


def address(url: str) -> str:
    """The service's address without the slash at its end.

    Raises:
        BadArgumentError: It is none.
    """
    if not url.startswith(("http://", "https://")):
        raise BadArgumentError("url", url[:200] or "nothing", "an address such as http://127.0.0.1:8000")
    if "@" in url:  # every error names the address
        raise BadArgumentError(
            "url", "an address with a password in it", "an address without one; keys go into api_key"
        )
    return url.rstrip("/")


def authorization(api_key: str) -> dict[str, str]:
    """The header that carries a key; none without one.

    Raises:
        BadArgumentError: It is nothing that a key can be. The text is not repeated.
    """
    if not (api_key.isascii() and api_key.isprintable()):
        raise BadArgumentError("api_key", "a text that is no key", "a key as `liveanchor keys create` prints it")
    return {"Authorization": f"Bearer {api_key.strip()}"} if api_key.strip() else {}


def no_answer(error: httpx.HTTPError) -> NoAnswerError:
    """One of httpx's errors as ours, in one line."""
    said = (str(error).strip().splitlines() or [""])[0][: 2 * _SHOWN]
    name = type(error).__name__
    reached = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
    return NoAnswerError(f"{name}: {said}" if said else name, reached=reached)


def _kind(answer: httpx.Response) -> str:
    return str(answer.headers.get("content-type", "")).partition(";")[0].strip()
