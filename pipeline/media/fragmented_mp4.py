"""An mp4 that can be sent, and played, while it is still being made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.config import EncoderSettings
from pipeline.media.audio_in import AudioTrack
from pipeline.media.encoder import VideoFormat
from pipeline.media.encoder_select import EncoderSelector
from pipeline.media.muxing import MuxedMp4

if TYPE_CHECKING:
    from av.container import OutputContainer

MOVFLAGS = "empty_moov+default_base_moof+delay_moov"
"""`delay_moov` waits for the first fragment, so that the edit list of the AAC priming keeps sound and picture aligned."""


class _Outbox:
    """A sink that can only be written to; what was written is taken out once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep a copy of the bytes."""
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """Everything since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


class FragmentedMp4Writer(MuxedMp4):
    """Implements `Mp4Writer` as a stream: bytes come out of `write` every `fragment_ms` of media.

    Args:
        video_format: Size, rate and colour of the pictures.
        voice: The sound, or None for a silent file.
        settings: Encoder settings.
        selector: Opens encoders; the process-wide one by default.

    Raises:
        EncoderError: No encoder can be opened.
        InvalidInputError: The voice has a rate that AAC does not know, or no samples.
        ShapeError: The voice has a wrong shape or dtype.
    """

    MIN_VOICE_RATE_HZ = 44_100
    """The AAC priming (1024 samples) counts as playing time in fragments; at 44.1 kHz or more it is shorter than a frame."""

    def __init__(
        self,
        video_format: VideoFormat,
        voice: AudioTrack | None,
        settings: EncoderSettings,
        selector: EncoderSelector | None = None,
    ) -> None:
        self._outbox = _Outbox()
        self._fragment_us = settings.fragment_ms * 1000
        super().__init__(video_format, voice, settings, "stream", selector)

    def _open_container(self, options: dict[str, str]) -> OutputContainer:
        self._outbox = _Outbox()
        own = {"movflags": MOVFLAGS, "frag_duration": str(self._fragment_us), "flush_packets": "1"}
        container: OutputContainer = self._av.open(
            self._outbox, "w", format="mp4", container_options={**own, **options}
        )
        return container

    def _append(self, data: bytes) -> None:
        """Leave it out: players look for the list of fragments at the very end. The comment in the index says it, too."""

    def _take(self) -> bytes:
        return self._outbox.take()
