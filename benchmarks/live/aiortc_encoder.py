"""What one gets without own encoding: aiortc's encoders, fed with frames, one encode per peer.

Its H.264 encoder is fixed at 30 frames/s and 0.5 to 3 Mbit/s with libx264's preset `medium`; its sender reports tie the
clocks to the moment of sending. Nothing of it is changed here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from fractions import Fraction

import av
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCRtpSender, RTCSessionDescription

from benchmarks.live.stamped_scene import StampedScene
from pipeline.media.encoder import as_frame
from pipeline.session.canvas import paste
from pipeline.types import SAMPLE_RATE_HZ, Nv12Canvas

BLOCKS_PER_SECOND = 50
BLOCK_SAMPLES = SAMPLE_RATE_HZ // BLOCKS_PER_SECOND


class FrameTrack(MediaStreamTrack):
    """The scene's pictures as frames, paced."""

    kind = "video"

    def __init__(self, scene: StampedScene, began: float, stamp: Callable[[], int]) -> None:
        super().__init__()
        self._scene, self._began, self._stamp = scene, began, stamp
        self._index = max(0, round((time.monotonic() - began) * scene.fps))

    async def recv(self) -> av.VideoFrame:
        """The next frame when it is due."""
        await asyncio.sleep(max(0.0, self._began + self._index / self._scene.fps - time.monotonic()))
        canvas = Nv12Canvas(self._scene.canvas.y_plane.copy(), self._scene.canvas.uv_plane.copy())
        paste(canvas, self._scene.picture(self._index, self._stamp()))
        frame = as_frame(canvas)
        frame.pts, frame.time_base = self._index * 90_000 // self._scene.fps, Fraction(1, 90_000)
        self._index += 1
        return frame


class VoiceTrack(MediaStreamTrack):
    """The scene's clicks as 20 ms frames, paced; aiortc gives longer ones a wrong time."""

    kind = "audio"

    def __init__(self, scene: StampedScene, began: float) -> None:
        super().__init__()
        self._scene, self._began = scene, began
        self._block = max(0, round((time.monotonic() - began) * BLOCKS_PER_SECOND))

    async def recv(self) -> av.AudioFrame:
        """The next 20 ms when they are due."""
        await asyncio.sleep(max(0.0, self._began + self._block / BLOCKS_PER_SECOND - time.monotonic()))
        pcm = np.zeros(BLOCK_SAMPLES, np.float32)
        index, rest = divmod(self._block * self._scene.fps, BLOCKS_PER_SECOND)
        if not rest:
            click = self._scene.voice(index)[:BLOCK_SAMPLES]
            pcm[: len(click)] = click
        stereo = np.repeat(np.rint(pcm * 32767).astype(np.int16), 2)
        frame = av.AudioFrame.from_ndarray(stereo[None], format="s16", layout="stereo")
        frame.sample_rate, frame.pts = SAMPLE_RATE_HZ, self._block * BLOCK_SAMPLES
        frame.time_base = Fraction(1, SAMPLE_RATE_HZ)
        self._block += 1
        return frame


async def answer(
    scene: StampedScene, began: float, offer: str, stamp: Callable[[], int]
) -> tuple[RTCPeerConnection, str]:
    """Answer an offer the way aiortc's examples do, H.264 only."""
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.addTrack(FrameTrack(scene, began, stamp))
    connection.addTrack(VoiceTrack(scene, began))
    for transceiver in connection.getTransceivers():
        if transceiver.kind == "video":
            codecs = RTCRtpSender.getCapabilities("video").codecs
            transceiver.setCodecPreferences([one for one in codecs if one.mimeType in ("video/H264", "video/rtx")])
    await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
    await connection.setLocalDescription(await connection.createAnswer())
    return connection, str(connection.localDescription.sdp)
