"""How fast pictures become H.264, and how close the decoded file is to what went in.

Speed is that of `VideoEncoder.encode` alone, one stream, with the thread count of the settings; quality is measured on the
pictures of the finished mp4, decoded again, against the NV12 that was handed to the writer.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np

from kernels.errors import InvalidInputError
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.config import EncoderSettings
from pipeline.media.encoder import Purpose, VideoFormat, standalone_context
from pipeline.media.encoder_x264 import open_x264, x264_options
from pipeline.media.mp4 import MemoryMp4Writer
from pipeline.types import Nv12Canvas

WARM_UP_PICTURES = 10


@dataclass(frozen=True)
class EncodeQuality:
    """What a file keeps of its pictures.

    Attributes:
        psnr_db: Over luma and chroma of all pictures pooled, MAX = 255.
        per_picture_db: The same of each picture.
        kbps: Size of the file over its duration, kbit/s.
    """

    psnr_db: float
    per_picture_db: list[float]
    kbps: float


def encode_fps(
    canvases: Sequence[Nv12Canvas], purpose: Purpose, settings: EncoderSettings, *, fps: int = 25, repeats: int = 5
) -> list[float]:
    """Pictures per second that libx264 takes, NV12 handed over without a copy.

    Args:
        canvases: Pictures of one size, encoded in order, again and again; at least 2.
        purpose: `live` is `ultrafast` with zero latency by default, `file` the preset of finished files.
        settings: Presets, quality, threads.
        fps: Frame rate of the stream.
        repeats: Measured runs, each with a fresh encoder, after a short warm-up.

    Returns:
        One rate per run.

    Raises:
        InvalidInputError: Fewer than two pictures.
    """
    video_format = _format(canvases, fps)
    rates = []
    for run in range(repeats + 1):
        encoder = open_x264(standalone_context("libx264"), video_format, purpose, settings)
        pictures = canvases if run else canvases[:WARM_UP_PICTURES]
        began = time.perf_counter()
        for canvas in pictures:
            encoder.encode(canvas)
        encoder.flush()
        elapsed = time.perf_counter() - began
        encoder.close()
        if run:
            rates.append(len(pictures) / elapsed)
    return rates


def converting_encode_fps(
    canvases: Sequence[Nv12Canvas], purpose: Purpose, settings: EncoderSettings, *, fps: int = 25, repeats: int = 5
) -> list[float]:
    """The baseline: the same encoder and options, but each picture is first copied and converted to planar 4:2:0.

    Arguments, result and errors are those of `encode_fps`.
    """
    video_format = _format(canvases, fps)
    rates = []
    for run in range(repeats + 1):
        context = standalone_context("libx264")
        context.width, context.height, context.pix_fmt = video_format.width, video_format.height, "yuv420p"
        context.framerate, context.time_base = Fraction(fps), Fraction(1, fps)
        context.gop_size = video_format.gop_frames(settings.live_gop_s if purpose == "live" else settings.file_gop_s)
        context.thread_count = settings.threads
        context.options = x264_options(video_format, purpose, settings)
        pictures = canvases if run else canvases[:WARM_UP_PICTURES]
        began = time.perf_counter()
        for index, canvas in enumerate(pictures):
            packed = np.concatenate([canvas.y_plane, canvas.uv_plane])
            frame = av.VideoFrame.from_ndarray(packed, format="nv12").reformat(format="yuv420p")
            frame.pts, frame.time_base = index, context.time_base
            context.encode(frame)
        context.encode(None)
        if run:
            rates.append(len(pictures) / (time.perf_counter() - began))
    return rates


def nv12_psnr_db(canvases: Sequence[Nv12Canvas], settings: EncoderSettings, *, fps: int = 25) -> EncodeQuality:
    """Encode pictures into an mp4 with the settings for files, decode it and compare.

    Args:
        canvases: Pictures of one size; own arrays each, not one canvas painted again and again; at least 2.
        settings: Encoder settings.
        fps: Frame rate of the file.

    Returns:
        PSNR and size.

    Raises:
        InvalidInputError: Fewer than two pictures, or the file does not give back as many as went in.
    """
    writer = MemoryMp4Writer(_format(canvases, fps), None, settings)
    for canvas in canvases:
        writer.write(canvas)
    data = writer.finish()
    errors = []
    with av.open(io.BytesIO(data), "r") as container:
        for canvas, frame in zip(canvases, container.decode(video=0), strict=True):
            errors.append(_squared_error(canvas, frame))
    samples = 1.5 * canvases[0].width * canvases[0].height
    return EncodeQuality(
        psnr_db=_psnr_db(sum(errors), samples * len(errors)),
        per_picture_db=[_psnr_db(error, samples) for error in errors],
        kbps=len(data) * 8 / 1000 / (len(canvases) / fps),
    )


def synthetic_canvases(count: int, width: int = 1080, height: int = 1920) -> list[Nv12Canvas]:
    """A textured still with a face-sized patch that sways and a dark mouth that opens, for runs without a presenter.

    Args:
        count: Pictures.
        width: Even.
        height: Even.

    Returns:
        The pictures, own arrays each; the same for the same arguments.
    """
    import cv2

    rng = np.random.default_rng(5)
    yy, xx = np.mgrid[0:height, 0:width].astype(np.float32)
    grain = cv2.GaussianBlur(rng.normal(0, 6, (height, width, 3)).astype(np.float32), (0, 0), 1.0)
    face = np.exp(-((((xx - width / 2) / (width * 0.3)) ** 2 + ((yy - height * 0.4) / (height * 0.22)) ** 2) ** 2))
    weight = face[..., None]
    base = np.array([205.0, 160.0, 140.0]) * weight + np.array([60.0, 80.0, 110.0]) * (1 - weight) + grain
    base = base.astype(np.float32)
    canvases = []
    for i in range(count):
        sway = 0.003 * width * math.sin(i * 0.12) * face
        gap = height * (0.004 + 0.012 * (0.5 + 0.5 * math.sin(i * 0.8)))
        mouth = np.hypot((xx - width / 2) / (width * 0.08), (yy - height * 0.47) / gap)
        picture = cv2.remap(base, xx + sway, yy, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        picture *= np.clip(3 * mouth - 2, 0.2, 1.0)[..., None]
        canvases.append(Nv12Canvas(*rgb_to_nv12(np.clip(picture, 0, 255).astype(np.uint8))))
    return canvases


def _format(canvases: Sequence[Nv12Canvas], fps: int) -> VideoFormat:
    if len(canvases) < 2:
        raise InvalidInputError("canvases", f"{len(canvases)} pictures", "at least 2")
    return VideoFormat(canvases[0].width, canvases[0].height, fps)


def _squared_error(canvas: Nv12Canvas, frame: av.VideoFrame) -> float:
    decoded = as_nv12(frame)
    total = 0.0
    for want, got in ((canvas.y_plane, decoded.y_plane), (canvas.uv_plane, decoded.uv_plane)):
        step = want.astype(np.int32) - got
        total += float((step * step).sum(dtype=np.int64))
    return total


def as_nv12(frame: av.VideoFrame) -> Nv12Canvas:
    """The decoded picture as NV12 planes."""
    packed = np.asarray(frame.to_ndarray(format="nv12"), np.uint8)
    return Nv12Canvas(packed[: frame.height], packed[frame.height :])


def _psnr_db(squared_error: float, samples: float) -> float:
    return 10.0 * math.log10(255.0**2 * samples / squared_error) if squared_error > 0 else math.inf
