"""Sends coded pictures and a voice to an RTMP server: a process of its own, because FFmpeg holds the interpreter while it waits.

Standard input is one line of JSON (`url`, `options` of FFmpeg, `voice`), then records as `record` makes them; the first one that
counts is a key frame. `live` on standard output says that the server has taken the stream. It ends with its input, or when the
server is gone.
"""

from __future__ import annotations

import io
import json
import struct
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, BinaryIO, Final

import av
from av.audio.stream import AudioStream

VIDEO_HZ: Final = 90_000
VOICE_HZ: Final = 48_000
LIVE: Final = b"live\n"
_HEAD: Final = struct.Struct("<BBqI")
_VOICE_KBPS: Final = 96


def record(is_video: bool, key: bool, timestamp: int, data: bytes) -> bytes:
    """One record.

    Args:
        is_video: H.264 in Annex B form with the parameter sets in each key frame; else an Opus packet.
        key: A decoder can begin here.
        timestamp: In 1/90000 s for pictures, 1/48000 s for the voice, from one origin.
        data: The bytes.
    """
    return _HEAD.pack(is_video, key, timestamp, len(data)) + data


def records(source: BinaryIO) -> Iterator[tuple[bool, bool, int, bytes]]:
    """Read what `record` made, to the end of the input; a record that is cut off is left out."""
    while len(head := source.read(_HEAD.size)) == _HEAD.size:
        is_video, key, timestamp, length = _HEAD.unpack(head)
        data = source.read(length)
        if len(data) < length:
            return
        yield bool(is_video), bool(key), timestamp, data


class Pusher:
    """Muxes one stream as FLV.

    Args:
        target: What FFmpeg writes to.
        options: Options of its protocol.
        voice: Whether there is one; it becomes AAC.
        first: A key frame, from which the decoder's parameters are read.
    """

    def __init__(self, target: str, options: dict[str, str], voice: bool, first: bytes) -> None:
        self._container = av.open(target, "w", format="flv", options=options)
        with av.open(io.BytesIO(first), format="h264") as probe:
            self._video = self._container.add_stream_from_template(probe.streams.video[0])
        self._voice: AudioStream | None = None
        if voice:
            self._voice = self._container.add_stream("aac", rate=VOICE_HZ, layout="mono")
            self._voice.bit_rate = 1000 * _VOICE_KBPS
        self._opus: Any = av.CodecContext.create("libopus", "r")
        self._origin: Fraction | None = None

    def push(self, is_video: bool, key: bool, timestamp: int, data: bytes) -> None:
        """Send one record; the voice before the first picture is left out."""
        at = Fraction(timestamp, VIDEO_HZ if is_video else VOICE_HZ)
        if self._origin is None and is_video:
            self._origin = at
        if self._origin is None or at < self._origin:
            return
        if is_video:
            packet = av.Packet(data)
            packet.stream, packet.time_base = self._video, Fraction(1, VIDEO_HZ)
            packet.pts = packet.dts = round((at - self._origin) * VIDEO_HZ)
            packet.is_keyframe = key
            self._container.mux(packet)
        elif self._voice is not None:
            for frame in self._opus.decode(av.Packet(data)):
                frame.pts, frame.time_base = round((at - self._origin) * VOICE_HZ), Fraction(1, VOICE_HZ)
                self._container.mux(self._voice.encode(frame))

    def close(self) -> None:
        """End the stream."""
        self._container.close()


def run(source: BinaryIO, told: BinaryIO) -> None:
    """Send what comes in, to its end.

    Raises:
        av.FFmpegError: The server cannot be reached, or is gone.
    """
    asked = json.loads(source.readline())
    pusher: Pusher | None = None
    for one in records(source):
        is_video, key, _, data = one
        if pusher is None:
            if not (is_video and key):
                continue
            pusher = Pusher(asked["url"], asked["options"], asked["voice"], data)
            pusher.push(*one)
            told.write(LIVE)
            told.flush()
        else:
            pusher.push(*one)
    if pusher is not None:
        pusher.close()


def main() -> int:
    """Run; 0 the input ended, 1 the server is gone or never took the stream."""
    try:
        run(sys.stdin.buffer, sys.stdout.buffer)
    except (av.FFmpegError, BrokenPipeError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
