"""NVENC in process: options, and the only honest way to know whether it works: encode a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.config import EncoderSettings
from pipeline.media.encoder import AvVideoEncoder, EncoderError, Purpose, VideoFormat, standalone_context
from pipeline.media.h264_level import h264_level
from pipeline.types import Nv12Canvas

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext

CODEC_NAME = "h264_nvenc"
PROBE_SIDE = 256


def probe_nvenc() -> str | None:
    """Open NVENC and encode one grey frame.

    That the linked FFmpeg lists the encoder says nothing: the driver may be absent, and H100, H200 and A100 have no
    encoder at all.

    Returns:
        None when a packet came out, else why not.
    """
    import av

    settings = EncoderSettings()
    canvas = Nv12Canvas(
        np.full((PROBE_SIDE, PROBE_SIDE), 128, np.uint8), np.full((PROBE_SIDE // 2, PROBE_SIDE), 128, np.uint8)
    )
    level_before = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    with av.logging.Capture() as messages:
        try:
            encoder = open_nvenc(
                standalone_context(CODEC_NAME), VideoFormat(PROBE_SIDE, PROBE_SIDE, 25), "file", settings
            )
            packets = encoder.encode(canvas) + encoder.flush()
            encoder.close()
        except EncoderError as error:
            return "; ".join([str(error), *(message.strip() for _, _, message in messages)])
        finally:
            av.logging.set_level(level_before)
    return None if packets else f"{CODEC_NAME} took a frame and returned nothing"


def open_nvenc(
    context: VideoCodecContext, video_format: VideoFormat, purpose: Purpose, settings: EncoderSettings
) -> AvVideoEncoder:
    """Open NVENC on a context.

    Args:
        context: Unopened `h264_nvenc` context.
        video_format: Size, rate and colour.
        purpose: `file`, `stream` or `live`.
        settings: Preset, quality and rates.

    Returns:
        The encoder; no B-frames, no delay, closed GOPs.

    Raises:
        EncoderError: No driver, no encoder on this GPU, or all its sessions are taken.
        InvalidInputError: Larger or faster than H.264 allows.
    """
    gop_s = settings.live_gop_s if purpose == "live" else settings.file_gop_s
    return AvVideoEncoder(
        context, video_format, nvenc_options(video_format, purpose, settings), video_format.gop_frames(gop_s), threads=1
    )


def nvenc_options(video_format: VideoFormat, purpose: Purpose, settings: EncoderSettings) -> dict[str, str]:
    """FFmpeg options of NVENC for one purpose."""
    options = {
        "preset": settings.nvenc_preset,
        "tune": "ull",
        "bf": "0",
        "delay": "0",
        "zerolatency": "1",
        "forced-idr": "1",
        "no-scenecut": "1",
        "strict_gop": "1",
        "level": h264_level(video_format),
    }
    if purpose != "live":
        return options | {"rc": "constqp", "qp": str(settings.nvenc_file_qp), "profile": "high"}
    rate = settings.live_kbps * 1000
    return options | {
        "rc": "cbr",
        "profile": "baseline",
        "level": h264_level(video_format, settings.live_kbps),
        "b": str(rate),
        "maxrate": str(rate),
        "bufsize": str(round(rate * settings.live_vbv_s)),
    }
