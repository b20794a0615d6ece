"""Small media files made on the fly for tests."""

from __future__ import annotations

import io
import struct
from fractions import Fraction

import av
import cv2
import numpy as np

from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.config import EncoderSettings
from pipeline.media.encoder import VideoFormat
from pipeline.media.mp4 import MemoryMp4Writer
from pipeline.types import Nv12Canvas


def wav(samples, rate_hz=16_000):
    """A WAV file; int16 and float32 (n,) or (n, channels) are written as they are."""
    samples = np.atleast_2d(samples.T).T
    channels, width = samples.shape[1], samples.dtype.itemsize
    tag = 3 if samples.dtype.kind == "f" else 1
    body = samples.tobytes()
    head = struct.pack("<HHIIHH", tag, channels, rate_hz, rate_hz * channels * width, channels * width, width * 8)
    fact = b"fact" + struct.pack("<II", 4, len(samples))
    chunks = b"fmt " + struct.pack("<I", len(head)) + head + fact + b"data" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def sine(seconds=0.5, rate_hz=16_000, hz=440.0, level=0.5, channels=1):
    wave = (level * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)
    return wave if channels == 1 else np.repeat(wave[:, None], channels, axis=1)


def encoded(container, codec, samples, rate_hz, layout="mono", **options):
    """Samples float32 (n, channels) through a real encoder and muxer."""
    buffer = io.BytesIO()
    samples = np.atleast_2d(samples.T).T
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate_hz, layout=layout, options=options)
        form = stream.codec_context.format.name
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout=layout)
        frame.sample_rate, frame.time_base, frame.pts = rate_hz, Fraction(1, rate_hz), 0
        splitter = av.AudioResampler(form, layout, rate_hz, stream.codec_context.frame_size or 1024)
        for piece in [*splitter.resample(frame), *splitter.resample(None)]:
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def silent_video(frames=3, size=64):
    """An mp4 without sound."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        stream = output.add_stream("libx264", rate=25, width=size, height=size, pix_fmt="yuv420p")
        for _ in range(frames):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((size, size, 3), np.uint8))))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def video_with_sound(samples, rate_hz=44_100):
    """An mp4 with a picture and AAC."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as output:
        picture = output.add_stream("libx264", rate=25, width=64, height=64, pix_fmt="yuv420p")
        sound = output.add_stream("aac", rate=rate_hz, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate = rate_hz
        for _ in range(10):
            output.mux(picture.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))))
        output.mux(picture.encode(None))
        output.mux(sound.encode(frame))
        output.mux(sound.encode(None))
    return buffer.getvalue()


def moving_canvas(index, width=96, height=64):
    """A grey ramp with a bright bar that moves by four pixels per picture."""
    y = np.tile((np.arange(width) * 180 // width + 16).astype(np.uint8), (height, 1))
    start = index * 4 % width
    y[:, start : start + 8] = 220
    return Nv12Canvas(y, np.full((height // 2, width), 128, np.uint8))


def talking_canvases(count, width, height, speed=0.9):
    """A textured portrait-like picture whose middle sways and whose mouth opens; smooth colour, slight grain."""
    rng = np.random.default_rng(7)
    yy, xx = np.mgrid[0:height, 0:width].astype(np.float32)
    grain = cv2.GaussianBlur(rng.normal(0, 6, (height, width, 3)).astype(np.float32), (0, 0), 1.0)
    face = np.exp(-((((xx - width / 2) / (width * 0.3)) ** 2 + ((yy - height * 0.4) / (height * 0.25)) ** 2) ** 2))
    colours = np.array([205.0, 160.0, 140.0]) * face[..., None] + np.array([70.0, 90.0, 120.0]) * (1 - face[..., None])
    base = (colours + grain + 12 * np.sin(xx / 9)[..., None]).astype(np.float32)
    canvases = []
    for i in range(count):
        opening = 0.5 + 0.5 * np.sin(i * speed)
        sway = (2.5 * np.sin(i * 0.12) * face).astype(np.float32)
        picture = cv2.remap(base, xx + sway, yy, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        mouth = np.hypot(
            (xx - width / 2) / (width * 0.07), (yy - height * 0.5) / (height * 0.005 + height * 0.02 * opening)
        )
        picture = picture * np.clip(mouth * 3 - 2, 0.2, 1)[..., None]
        canvases.append(Nv12Canvas(*rgb_to_nv12(np.clip(picture, 0, 255).astype(np.uint8))))
    return canvases


def video_of(canvases, fps=25, crf=17, colour="bt709"):
    """An mp4 of these pictures, without sound."""
    writer = MemoryMp4Writer(
        VideoFormat(canvases[0].width, canvases[0].height, fps, colour),
        None,
        EncoderSettings(prefer="x264", file_crf=crf),
    )
    for canvas in canvases:
        writer.write(canvas)
    return writer.finish()
