"""One session's microphone, from the datagram to the decision whether somebody speaks, on a clock of its own."""

from __future__ import annotations

import asyncio
from typing import Final

from benchmarks.live.click_stages import ClickStages
from benchmarks.live.packet_by_packet import PacketByPacket
from benchmarks.live.sent_voice import VoiceWire
from kernels.arrays import F32
from pipeline.config import SessionSettings
from pipeline.live.contracts import Drive
from pipeline.live.driving_voice import DrivingVoice
from pipeline.live.grid import MediaGrid, frame_of
from pipeline.live.hop_choice import HopChoice
from pipeline.live.lip_delay import LipDelay
from pipeline.live.settings import LiveSettings
from pipeline.live.timeline import Timeline
from pipeline.session.speech_scan import SpeechScan
from pipeline.stage_meter import StageMeter
from pipeline.types import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from pipeline.webrtc.microphone_line import MicrophoneLine
from pipeline.webrtc.rtc_patches import hook_microphone
from pipeline.webrtc.voice_thread import VoiceThread

FPS: Final = 25
PICTURE_SAMPLES: Final = SAMPLE_RATE_HZ // FPS


class MicrophonePath:
    """What `LivePeer` and `LiveSession` do with a client's voice, without pictures and without a network.

    Args:
        thread: Decodes; None: on the event loop, packet by packet.

    Attributes:
        wire: Where datagrams arrive.
        timeline: Where the voice ends up.
        now_s: Time.
        failure: What broke in the thread; None as long as nothing did.
    """

    def __init__(self, thread: VoiceThread | None) -> None:
        self.now_s = 0.0
        self.wire = VoiceWire()
        self.timeline = Timeline()
        self.failure: BaseException | None = None
        picture = SessionSettings(fps=FPS)
        self._scan = SpeechScan(self.timeline.levelled, picture.silence)
        settings = LiveSettings()
        stages = StageMeter(ClickStages(), self._clock)
        self._ahead = stages.info.lookahead_samples
        hops = HopChoice(stages.info, settings.hop_frames, lambda: False)
        delay = LipDelay(stages, settings, hops, MediaGrid(FPS))
        quiet_rms = picture.silence.close_rms
        self.voice = DrivingVoice(
            Drive.MIC, self.timeline, self._scan, delay, quiet_rms, 600.0, "m", self._now, self._clock, self.look
        )
        self.voice.begin()
        self._line: MicrophoneLine | PacketByPacket
        if thread is None:
            self._line = PacketByPacket(self.take, self._clock)
        else:
            self._line = MicrophoneLine(self.take, self._broke, thread, self._clock)
        hook_microphone(self.wire.receiver, self._line.packet, self._clock)
        self._ticks = 0

    def step(self, datagram: bytes, now_s: float) -> None:
        """A packet comes at `now_s`, and pictures that are due by then are shown."""
        self.now_s = now_s
        self.wire.arrives(datagram)
        while self._ticks / FPS <= now_s:
            self.voice.hear(self._ticks * PICTURE_SAMPLES, PICTURE_SAMPLES)
            self._line.passes()
            self._ticks += 1

    def take(self, samples: F32, place: int, age_s: float) -> int:
        """The transport hands the voice over to the session; answers as `LiveSession.feed` does."""
        self.voice.feed(samples, place, self._ticks, int(age_s * SAMPLE_RATE_HZ))
        return SAMPLES_PER_FRAME - (self.timeline.end - self._ahead) % SAMPLES_PER_FRAME

    def look(self) -> None:
        """Samples came: does anybody speak?"""
        self._scan.look(frame_of(self.timeline.end), frame_of(self._now()))

    def close(self) -> None:
        """Let the thread go."""
        self._line.close()

    def _broke(self, error: BaseException) -> None:
        self.failure = error

    def _clock(self) -> float:
        return self.now_s

    def _now(self) -> int:
        return int(self.now_s * SAMPLE_RATE_HZ + 0.5)


async def settle(thread: VoiceThread) -> None:
    """Wait until a thread has done what it was asked for and the loop has taken it."""
    while thread.busy:  # noqa: ASYNC110  # the thread is done sooner than an event could be waited for
        await asyncio.sleep(0)
    await asyncio.sleep(0)
