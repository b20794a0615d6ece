"""libx264: which options each purpose needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.config import EncoderSettings
from pipeline.media.encoder import AvVideoEncoder, Purpose, VideoFormat
from pipeline.media.h264_level import h264_level

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext

CODEC_NAME = "libx264"


def open_x264(
    context: VideoCodecContext, video_format: VideoFormat, purpose: Purpose, settings: EncoderSettings
) -> AvVideoEncoder:
    """Open libx264 on a context.

    Args:
        context: Unopened `libx264` context.
        video_format: Size, rate and colour.
        purpose: `file`, `stream` or `live`.
        settings: Presets, quality and rates.

    Returns:
        The encoder; takes NV12 without conversion, makes no B-frames.

    Raises:
        EncoderError: libx264 refuses.
        InvalidInputError: Larger or faster than H.264 allows.
    """
    gop_s = settings.live_gop_s if purpose == "live" else settings.file_gop_s
    return AvVideoEncoder(
        context,
        video_format,
        x264_options(video_format, purpose, settings),
        video_format.gop_frames(gop_s),
        settings.live_threads if purpose == "live" else settings.threads,
    )


def x264_options(video_format: VideoFormat, purpose: Purpose, settings: EncoderSettings) -> dict[str, str]:
    """FFmpeg options of libx264 for one purpose."""
    options = {"bf": "0", "sc_threshold": "0", "forced-idr": "1", "level": h264_level(video_format)}
    if purpose == "file":
        look_ahead = str(settings.file_lookahead_frames)
        return options | {"preset": settings.file_preset, "crf": str(settings.file_crf), "rc-lookahead": look_ahead}
    if purpose == "stream":
        return options | {"preset": settings.stream_preset, "crf": str(settings.stream_crf), "tune": "zerolatency"}
    rate = settings.live_kbps * 1000
    slices = f":slice-max-size={video_format.max_nal_bytes}" if video_format.max_nal_bytes else ""
    return options | {
        "preset": settings.live_preset,
        "tune": "zerolatency",
        "profile": "baseline",
        "level": h264_level(video_format, settings.live_kbps),
        "b": str(rate),
        "maxrate": str(rate),
        "bufsize": str(round(rate * settings.live_vbv_s)),
        "x264-params": f"repeat-headers=1:qpmin={settings.live_min_qp}{slices}",
    }
