"""The two calls of a LiveAnchor server that an agent needs."""

from __future__ import annotations

import json
from typing import Any, Final

import aiohttp
from livekit.agents import APIConnectionError, APIStatusError

START_S: Final = 30.0
"""The answer comes when the presenter has joined the room."""
STOP_S: Final = 5.0


class LiveAnchorCapacityError(APIStatusError):
    """The server has no room for one more presenter.

    Attributes:
        retry_after_s: Seconds that it asks to wait; None where it does not say.
    """

    def __init__(self, message: str, retry_after_s: float | None, body: object) -> None:
        super().__init__(message, status_code=503, body=body, retryable=True)
        self.retry_after_s = retry_after_s


class LiveAnchorAPI:
    """Talks to one LiveAnchor server.

    Args:
        base_url: Address of the server.
        api_key: Its key; None where it needs none.
        http: Makes the requests; not closed here.
    """

    def __init__(self, base_url: str, api_key: str | None, http: aiohttp.ClientSession) -> None:
        self._base, self._http = base_url.rstrip("/"), http
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def join(self, url: str, token: str, avatar_id: str | None, fps: int) -> dict[str, Any]:
        """Let a presenter join a room. It reserves a place, so it is asked once and never again by itself.

        Args:
            url: Address of the LiveKit server.
            token: The presenter's access token.
            avatar_id: A registered presenter; None for the default one.
            fps: 25 or 50.

        Returns:
            `session_id`, `room`, `identity`, `avatar_id`, `fps`, `width`, `height`.

        Raises:
            LiveAnchorCapacityError: There is no room for it now.
            APIStatusError: The server refuses; `retryable` says whether it may help to ask again.
            APIConnectionError: It does not answer.
        """
        body = {"url": url, "token": token, "fps": fps} | ({"avatar_id": avatar_id} if avatar_id else {})
        timeout = aiohttp.ClientTimeout(total=START_S)
        try:
            async with self._http.post(
                f"{self._base}/stream/livekit", json=body, headers=self._headers, timeout=timeout
            ) as answer:
                if answer.status >= 400:
                    raise _error_of(answer.status, await answer.text(), answer.headers)
                found: dict[str, Any] = await answer.json()
                return found
        except (aiohttp.ClientError, TimeoutError) as error:
            raise APIConnectionError(f"LiveAnchor does not answer: {type(error).__name__}") from error

    async def leave(self, session_id: str) -> None:
        """Let a presenter leave; one that is gone already is no error.

        Raises:
            APIStatusError: The server refuses.
            APIConnectionError: It does not answer.
        """
        timeout = aiohttp.ClientTimeout(total=STOP_S)
        try:
            async with self._http.delete(
                f"{self._base}/stream/livekit/{session_id}", headers=self._headers, timeout=timeout
            ) as answer:
                if answer.status >= 400 and answer.status not in (404, 410):
                    raise _error_of(answer.status, await answer.text(), answer.headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise APIConnectionError(f"LiveAnchor does not answer: {type(error).__name__}") from error


def _error_of(status: int, text: str, headers: Any) -> APIStatusError:
    try:
        problem = json.loads(text)
    except ValueError:
        problem = None
    body = problem if isinstance(problem, dict) else {}
    message = f"LiveAnchor refuses ({body.get('code', status)}): {body.get('detail') or text[:200]}"
    if body.get("code") == "no_capacity":
        wait = headers.get("Retry-After", "")
        return LiveAnchorCapacityError(message, float(wait) if wait.isdigit() else None, body)
    return APIStatusError(
        message, status_code=status, request_id=body.get("request_id"), body=body, retryable=status != 501
    )
