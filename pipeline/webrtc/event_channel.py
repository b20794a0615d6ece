"""The data channel "events": what happens in a session as JSON, and small JSON messages from the client."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from aiortc import RTCDataChannel

from pipeline.live.contracts import LiveEvent

LABEL = "events"
WAITING = 32
"""Events kept until the channel opens."""
MAX_BUFFERED_BYTES = 256_000
"""A client that does not read loses events beyond this."""
MAX_MESSAGE_BYTES = 16_384


def event_json(event: LiveEvent, epoch_ntp: int | None) -> str:
    """An event as one line of JSON; fields that do not apply are left out.

    `ntp_s` is its time by the clock of the sender reports, seconds since 1900, which is how a client finds it in picture and voice.

    Args:
        event: What happened.
        epoch_ntp: Media time 0 as a 64-bit NTP time; None where no picture has told it yet.
    """
    fields = {name: value for name, value in asdict(event).items() if value is not None and value != ""}
    if epoch_ntp is not None:
        fields["ntp_s"] = epoch_ntp / 2**32 + event.at_s
    return json.dumps(fields, separators=(",", ":"))


class EventChannel:
    """Sends events once a channel is open; keeps the last few until then.

    Args:
        on_message: Gets every JSON object that the client sends; anything else is ignored.
        epoch_ntp: Gives media time 0 as a 64-bit NTP time; None before a tick.
    """

    def __init__(
        self, on_message: Callable[[dict[str, Any]], None] | None, epoch_ntp: Callable[[], int | None]
    ) -> None:
        self.dropped = 0
        self._on_message = on_message
        self._epoch_ntp = epoch_ntp
        self._channel: RTCDataChannel | None = None
        self._waiting: deque[str] = deque(maxlen=WAITING)

    @property
    def attached(self) -> bool:
        """Whether there is a channel, open or not."""
        return self._channel is not None

    def attach(self, channel: RTCDataChannel) -> None:
        """Use a channel; a later one takes the place of an earlier one."""
        self._channel = channel
        channel.on("message", self._receive)
        channel.on("open", self._flush)
        self._flush()

    def send(self, event: LiveEvent) -> None:
        """Send an event, or keep it until there is an open channel."""
        self._waiting.append(event_json(event, self._epoch_ntp()))
        self._flush()

    def _flush(self) -> None:
        channel = self._channel
        if channel is None or channel.readyState != "open":
            return
        while self._waiting:
            text = self._waiting.popleft()
            if channel.bufferedAmount > MAX_BUFFERED_BYTES:
                self.dropped += 1
            else:
                channel.send(text)

    def _receive(self, message: str | bytes) -> None:
        if self._on_message is None or len(message) > MAX_MESSAGE_BYTES:
            return
        try:
            content = json.loads(message)
        except (ValueError, RecursionError):
            return
        if isinstance(content, dict):
            self._on_message(content)
