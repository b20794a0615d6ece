"""Pipecat's SmallWebRTC transport as a presenter needs it."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any, Final

from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc.transport import RawVideoTrack

CLOCK_HZ: Final = 90_000
AT_ONCE_FPS: Final = 100
"""A live transport waits one picture at this rate, then shows each picture when it comes, 25 a second."""


def smallwebrtc_params(width: int, height: int, **more: Any) -> TransportParams:
    """Parameters of a `SmallWebRTCTransport` that shows a presenter in lip sync.

    It also lets the transport's pictures carry the time at which they are shown, for the whole process. As it comes, Pipecat 1.14
    stamps each picture 1/30 s after the last one, whatever the rate is, so viewers would see the picture drift from the voice.

    Args:
        width: Pixels of the presenter's picture.
        height: Pixels.
        **more: Further parameters, such as `audio_in_enabled=True`.
    """
    RawVideoTrack.next_timestamp = _now  # type: ignore[method-assign]
    return TransportParams(
        audio_out_enabled=True,
        audio_out_10ms_chunks=4,
        video_out_enabled=True,
        video_out_is_live=True,
        video_out_width=width,
        video_out_height=height,
        video_out_framerate=AT_ONCE_FPS,
        **more,
    )


async def _now(track: Any) -> tuple[int, Fraction]:
    now = time.monotonic()
    began = track.__dict__.setdefault("_liveanchor_began", now)
    return round((now - began) * CLOCK_HZ), Fraction(1, CLOCK_HZ)
