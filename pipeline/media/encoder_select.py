"""Which encoder runs: NVENC where it really encodes, libx264 everywhere else."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import structlog

from pipeline.config import EncoderSettings
from pipeline.media.encoder import EncoderError, Purpose, VideoEncoder, VideoFormat, standalone_context
from pipeline.media.encoder_nvenc import CODEC_NAME as NVENC
from pipeline.media.encoder_nvenc import open_nvenc, probe_nvenc
from pipeline.media.encoder_x264 import CODEC_NAME as X264
from pipeline.media.encoder_x264 import open_x264

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext


class Log(Protocol):
    """The part of a structlog logger that is used here."""

    def info(self, event: str, **fields: object) -> object:
        """Record something normal."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Record something that an operator should see."""
        ...


class EncoderSelector:
    """Opens encoders; probes NVENC at most once and says once which encoder runs and why.

    Args:
        probe: Returns None when NVENC works, else why not.
        log: Where to say it.
    """

    def __init__(self, probe: Callable[[], str | None] = probe_nvenc, log: Log | None = None) -> None:
        self._probe = probe
        self._log: Log = log if log is not None else structlog.get_logger("liveanchor.encoder")
        self._nvenc_problem: str | None = None
        self._probed = False
        self._announced: set[str] = set()

    def codec_name(self, settings: EncoderSettings) -> str:
        """The encoder that will be tried first, `h264_nvenc` or `libx264`.

        Raises:
            EncoderError: `prefer` is `nvenc` and NVENC does not work here.
        """
        if settings.prefer == "x264":
            self._announce(X264, "asked for by the settings")
            return X264
        if not self._probed:
            self._nvenc_problem, self._probed = self._probe(), True
        if self._nvenc_problem is None:
            self._announce(NVENC, "one frame was encoded")
            return NVENC
        if settings.prefer == "nvenc":
            raise EncoderError(f"NVENC is asked for but does not work here: {self._nvenc_problem}")
        self._announce(X264, self._nvenc_problem)
        return X264

    def open(
        self,
        video_format: VideoFormat,
        purpose: Purpose,
        settings: EncoderSettings,
        make_context: Callable[[str], VideoCodecContext] = standalone_context,
    ) -> VideoEncoder:
        """Open an encoder; when NVENC has no session left, libx264 takes over.

        Args:
            video_format: Size, rate and colour.
            purpose: `file`, `stream` or `live`.
            settings: Presets, quality, preference.
            make_context: Gives an unopened codec context for a codec name; called again for the second attempt.

        Returns:
            The open encoder.

        Raises:
            EncoderError: No encoder can be opened, or `prefer` is `nvenc` and NVENC cannot.
            InvalidInputError: Larger or faster than H.264 allows.
        """
        if self.codec_name(settings) == NVENC:
            try:
                return open_nvenc(make_context(NVENC), video_format, purpose, settings)
            except EncoderError as error:
                if settings.prefer == "nvenc":
                    raise
                self._log.warning("video_encoder_fallback", encoder=X264, reason=str(error))
        return open_x264(make_context(X264), video_format, purpose, settings)

    def _announce(self, codec_name: str, reason: str) -> None:
        if codec_name not in self._announced:
            self._announced.add(codec_name)
            self._log.info("video_encoder_selected", encoder=codec_name, reason=reason)


@lru_cache(maxsize=1)
def default_selector() -> EncoderSelector:
    """The selector of this process."""
    return EncoderSelector()
