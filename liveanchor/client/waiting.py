"""Waiting for a video, without a clock of its own: when to ask again, and when it has been long enough."""

from __future__ import annotations

from liveanchor.client.answers import Video
from liveanchor.client.errors import ClientError, StrangeAnswerError, TooLateError, VideoFailedError

POLL_S = 2.0
"""Seconds between two questions where the service names no time."""
MAX_PAUSE_S = 30.0
PROXY_STATUSES = (502, 503, 504)


class Wait:
    """Decides how a video is waited for. A service that is away for a moment, or restarts, is asked again.

    Args:
        video_id: Which video.
        now_s: The time now, in seconds of any clock.
        timeout_s: Longest time to wait in seconds; None: as long as it takes.
    """

    def __init__(self, video_id: str, now_s: float, timeout_s: float | None) -> None:
        self._video_id = video_id
        self._until_s = None if timeout_s is None else now_s + timeout_s

    def after(self, seen: Video | ClientError, now_s: float) -> float:
        """Seconds to the next question.

        Args:
            seen: The video as it was answered, or the error that came instead.
            now_s: The time now.

        Raises:
            ClientError: `seen`, where asking again is no use.
            TooLateError: The time is over.
        """
        if isinstance(seen, ClientError) and not _passes(seen):
            raise seen
        pause_s = min(seen.retry_after_s or POLL_S, MAX_PAUSE_S)
        if self._until_s is None:
            return pause_s
        if now_s >= self._until_s:
            last = f"the last answer was {seen.state}" if isinstance(seen, Video) else seen.message
            raise TooLateError(f"{self._video_id} has not ended in time; {last}", "timeout", param="timeout_s")
        return min(pause_s, self._until_s - now_s)


def with_file(video: Video) -> Video:
    """The video itself, once it is completed.

    Raises:
        VideoFailedError: It ended without a file.
    """
    if video.status == "completed":
        return video
    raise VideoFailedError(video.error_message or "the video has no file", video.error_code or video.state)


def _passes(error: ClientError) -> bool:
    """Whether the same question may be answered later."""
    if isinstance(error, StrangeAnswerError):
        return error.status in PROXY_STATUSES
    return error.retry_after_s is not None
