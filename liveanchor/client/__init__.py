"""A client of the service: `Client` for plain code, `AsyncClient` for asyncio; errors and answers are typed.

Every route that they know is described once, in `calls.py`; both clients carry the same descriptions out.
"""

from liveanchor.client.answers import Generated, Interrupted, LiveSession, Presenter, Progress, Spoken, Video, VideoPage
from liveanchor.client.async_client import AsyncClient
from liveanchor.client.errors import (
    BadArgumentError,
    ClientError,
    FailedError,
    NoAnswerError,
    RefusedError,
    StrangeAnswerError,
    TooLateError,
    VideoFailedError,
)
from liveanchor.client.sync_client import Client

__all__ = [
    "AsyncClient",
    "BadArgumentError",
    "Client",
    "ClientError",
    "FailedError",
    "Generated",
    "Interrupted",
    "LiveSession",
    "NoAnswerError",
    "Presenter",
    "Progress",
    "RefusedError",
    "Spoken",
    "StrangeAnswerError",
    "TooLateError",
    "Video",
    "VideoFailedError",
    "VideoPage",
]
