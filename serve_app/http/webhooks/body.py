"""What a message says: that a video has ended, and how; whoever wants more asks for the video."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from deployments.video_jobs.job import JobState
from deployments.video_jobs.webhooks import Message
from serve_app.http.videos.answers import error_of, status_of


def type_of(message: Message) -> str:
    """Kind of a message: `video.completed` or `video.failed`."""
    return f"video.{status_of(message.ended)}"


def body_of(message: Message) -> bytes:
    """JSON of a message, the same in every attempt."""
    error = error_of(message.job_id, message.ended, message.failure)
    video: dict[str, Any] = {
        "id": message.job_id,
        "object": "video",
        "status": status_of(message.ended),
        "state": message.ended,
        "metadata": dict(message.metadata),
        "error": None if error is None else {"code": error.code, "message": error.message},
        "content_url": f"/v1/videos/{message.job_id}/content" if message.ended is JobState.COMPLETED else None,
    }
    said = {
        "type": type_of(message),
        "timestamp": datetime.fromtimestamp(int(message.created_at), UTC).isoformat().replace("+00:00", "Z"),
        "data": video,
    }
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
