"""Makes a short file as a caller does, which needs the graph, the results' store and, for videos, the jobs' store."""

from __future__ import annotations

import io
import math
import struct
import tempfile
import wave
from pathlib import Path
from typing import Final

from liveanchor.client import ClientError
from serve_app.cli.finding import Finding
from serve_app.cli.service.visit import Visit, trouble

SECONDS: Final = 0.6
RATE_HZ: Final = 16_000
NAME: Final = "short file"


def short_file(visit: Visit) -> Finding:
    """Have a hum of 0.6 s spoken, kept and fetched."""
    began = visit.clock()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "short.mp4")
        try:
            made = visit.client.generate(out, audio=hum(), captions=True)  # the way that keeps the file
        except ClientError as error:
            return trouble(NAME, error)
        head = out.read_bytes()[:12]
        if head[4:8] != b"ftyp":
            return Finding(NAME, "missing", "what was kept is no mp4", "look at the proxy and at stores.results")
        size = out.stat().st_size
    return Finding(NAME, "ok", f"{made.frames} pictures, {size // 1000} kB, in {visit.clock() - began:.1f} s")


def videos_store(visit: Visit) -> Finding:
    """Whether the store of videos in the background answers."""
    try:
        waiting = [one for one in visit.client.videos.list(100).videos if one.place]
    except ClientError as error:
        return trouble("videos' store", error)
    return Finding("videos' store", "ok", f"answers; {len(waiting)} of the newest 100 wait")


def hum() -> bytes:
    """A voice-like hum as a WAV file, 16 bit mono: 120 Hz with overtones, swelling and ebbing four times a second."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        for index in range(round(SECONDS * RATE_HZ)):
            at = index / RATE_HZ
            tone = sum(math.sin(2 * math.pi * 120 * k * at) / k for k in range(1, 9))
            file.writeframesraw(struct.pack("<h", round(5000 * tone * math.sin(4 * math.pi * at) ** 2)))
    return buffer.getvalue()
