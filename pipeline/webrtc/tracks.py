"""A hub's pictures or voice as a track that aiortc can send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from pipeline.webrtc.packets import MediaKind, PacketQueue, QueueClosed

if TYPE_CHECKING:
    from pipeline.webrtc.hub import LiveHub


class PacketTrack(MediaStreamTrack):
    """Yields `EncodedUnit`; subscribes when the sender first asks, that is once the peer is connected.

    Args:
        kind: "video" or "audio".
        hub: Where the units come from.
    """

    def __init__(self, kind: MediaKind, hub: LiveHub) -> None:
        super().__init__()
        self.kind = kind
        self._media: MediaKind = kind
        self._hub = hub
        self._queue: PacketQueue | None = None

    @property
    def queue(self) -> PacketQueue | None:
        """What waits to be sent; None before the first `recv`."""
        return self._queue

    async def recv(self) -> Any:
        """The next unit.

        Raises:
            MediaStreamError: The track or the hub ended.
        """
        if self.readyState != "live":
            raise MediaStreamError
        if self._queue is None:
            self._queue = self._hub.subscribe(self._media)
        try:
            return await self._queue.get()
        except QueueClosed as error:
            raise MediaStreamError from error

    def stop(self) -> None:
        """End it; harmless when repeated."""
        super().stop()
        if self._queue is not None:
            self._hub.unsubscribe(self._queue)
