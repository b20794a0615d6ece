"""What the first session of a process would otherwise wait for: libraries, the encoder's probe, the first key pair."""

from __future__ import annotations

import asyncio
import time

import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection

from pipeline.config import EncoderSettings
from pipeline.live.voice_resampler import PER_SAMPLE, VoiceResampler
from pipeline.media.encoder import VideoFormat
from pipeline.media.encoder_select import EncoderSelector, default_selector
from pipeline.media.running_level import STEP, RunningLevel
from pipeline.types import Nv12Canvas
from pipeline.webrtc.live_video import LiveVideo
from pipeline.webrtc.rtc_patches import apply_patches
from pipeline.webrtc.voice_encoder import FRAME_SAMPLES, VoiceEncoder
from pipeline.webrtc.voice_receiver import VoiceReceiver

SIDE = 128
KBPS = 500


async def warm_up(encoder: EncoderSettings, selector: EncoderSelector | None = None) -> str:
    """Encode a picture and 20 ms of voice, decode them, make and close a connection.

    Returns:
        The video encoder that live sessions will get.

    Raises:
        EncoderError: No encoder opens.
    """
    apply_patches()
    name = await asyncio.to_thread(_media, encoder, selector or default_selector())
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.addTransceiver("video")
    await connection.createOffer()
    await connection.close()
    return name


def _media(encoder: EncoderSettings, selector: EncoderSelector) -> str:
    video = LiveVideo(VideoFormat(SIDE, SIDE, 25), encoder, KBPS, selector, time.monotonic)
    grey = Nv12Canvas(np.full((SIDE, SIDE), 128, np.uint8), np.full((SIDE // 2, SIDE), 128, np.uint8))
    video.encode(grey, 0, KBPS)
    name = video.codec_name
    video.close()
    units = VoiceEncoder().encode(np.zeros(FRAME_SAMPLES, np.float32), 0)
    VoiceReceiver(lambda samples, place: None, time.monotonic).packet(0, 0, units[0].payloads[0])
    RunningLevel().hear(VoiceResampler().push(np.zeros(2 * PER_SAMPLE * STEP, np.float32)))
    return name
