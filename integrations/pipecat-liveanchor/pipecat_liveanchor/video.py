"""The video service: speech of the pipeline goes to a LiveAnchor session, its pictures and its voice go on to the transport."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import numpy as np
from pipecat.audio.utils import create_stream_resampler
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    CancelFrame,
    EndFrame,
    Frame,
    InterruptionFrame,
    OutputImageRawFrame,
    OutputTransportReadyFrame,
    SpeechOutputAudioRawFrame,
    StartFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessorSetup
from pipecat.services.ai_service import AIService
from pipecat.services.settings import ServiceSettings

from pipecat_liveanchor.errors import LiveAnchorServiceError
from pipecat_liveanchor.lockstep import RATE_HZ, Samples, Step
from pipecat_liveanchor.session import LiveAnchorSession, Picture

DRAIN_S: Final = 30.0
"""Longest wait at the end of the pipeline for speech that was pushed."""
PACKING_S: Final = 0.02
"""The transport cuts voice into blocks of 10 ms, packets of 20 ms, and Opus is 6.5 ms late: pictures wait for that."""


@dataclass
class LiveAnchorVideoSettings(ServiceSettings):
    """Settings that may change while the pipeline runs; a presenter has none."""


class LiveAnchorVideoService(AIService):
    """Lets a LiveAnchor presenter speak what the text-to-speech service before it says.

    Put it between the text-to-speech service and `transport.output()`, whose parameters are those of `smallwebrtc_params`.
    When the presenter cannot be had, an `ErrorFrame` goes upstream and the voice goes on without a picture.

    Args:
        base_url: Address of the LiveAnchor server.
        api_key: Key of the server; None where it needs none.
        avatar_id: A registered presenter; None for the default one.
        session: Makes the requests; one of its own where None.
        settings: As of every service.
        **kwargs: Passed to `AIService`.
    """

    Settings = LiveAnchorVideoSettings

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None = None,
        avatar_id: str | None = None,
        session: aiohttp.ClientSession | None = None,
        settings: LiveAnchorVideoSettings | None = None,
        **kwargs: Any,
    ) -> None:
        chosen = LiveAnchorVideoSettings(model=None)
        if settings is not None:
            chosen.apply_update(settings)
        super().__init__(settings=chosen, **kwargs)
        self._base_url, self._api_key, self._avatar_id = base_url, api_key, avatar_id
        self._http, self._own_http = session, session is None
        self._live: LiveAnchorSession | None = None
        self._refusal: LiveAnchorServiceError | None = None
        self._out_rate = RATE_HZ
        self._resampler = create_stream_resampler()
        self._rate = 0
        self._ready = False
        self._picture: Picture | None = None
        self._open = False
        self._rests = True
        self._stops: deque[TTSStoppedFrame] = deque()
        self._leaving: deque[tuple[int, TTSStoppedFrame]] = deque()
        self._quiet = asyncio.Event()
        self._quiet.set()

    def can_generate_metrics(self) -> bool:
        """Whether metrics come: time to the first spoken sound."""
        return True

    async def setup(self, setup: FrameProcessorSetup) -> None:
        """Connect to the presenter, so that it is there when the pipeline starts."""
        await super().setup(setup)
        self._out_rate = setup.audio_out_sample_rate
        self._http = self._http or aiohttp.ClientSession()
        live = LiveAnchorSession(
            self._base_url,
            self._http,
            self._step,
            self._event,
            self._lost,
            api_key=self._api_key,
            avatar_id=self._avatar_id,
        )
        try:
            await live.start()
            self._live = live
        except LiveAnchorServiceError as error:
            self._refusal = error
            await live.close()

    async def start(self, frame: StartFrame) -> None:
        """Say what went wrong in `setup`, if anything did: errors reach the pipeline from here on."""
        await super().start(frame)
        if self._refusal is not None:
            await self._fail(self._refusal)

    async def stop(self, frame: EndFrame) -> None:
        """Let speech end that was pushed, then end the session."""
        await super().stop(frame)
        if self._live is not None:
            try:
                async with asyncio.timeout(DRAIN_S):
                    await self._quiet.wait()
            except TimeoutError:
                await self.push_error(error_msg="the presenter did not finish speaking")
        await self._teardown()

    async def cancel(self, frame: CancelFrame) -> None:
        """End the session at once."""
        await super().cancel(frame)
        await self._teardown()

    async def cleanup(self) -> None:
        """Free everything; harmless when repeated."""
        await super().cleanup()
        await self._teardown()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Take speech, interruptions and ends of speech; everything else passes."""
        await super().process_frame(frame, direction)
        if isinstance(frame, InterruptionFrame):
            await self._interrupt(frame, direction)
        elif isinstance(frame, TTSAudioRawFrame) and self._live is not None:
            await self._say(self._live, frame)
        elif isinstance(frame, TTSStoppedFrame) and self._live is not None and self._open:
            await self._end(self._live, frame)
        elif isinstance(frame, OutputTransportReadyFrame):
            self._ready = True
            await self.push_frame(frame, direction)
        else:
            if isinstance(frame, TTSStartedFrame):
                await self.start_ttfb_metrics()
            elif isinstance(frame, BotStartedSpeakingFrame):
                await self.stop_ttfb_metrics()
            await self.push_frame(frame, direction)

    async def _say(self, live: LiveAnchorSession, frame: TTSAudioRawFrame) -> None:
        self._rate = self._rate or frame.sample_rate
        pcm = _mono(frame.audio, frame.num_channels)
        pcm = await self._resampler.resample(pcm, frame.sample_rate, self._rate)
        try:
            await live.push(pcm, self._rate)
        except LiveAnchorServiceError as error:
            await self._fail(error)
            await self.push_frame(frame)
            return
        self._open = True
        self._quiet.clear()

    async def _end(self, live: LiveAnchorSession, frame: TTSStoppedFrame) -> None:
        """Hold the frame until the presenter has spoken: the transport takes it for the end of the bot's speech."""
        self._open = False
        self._stops.append(frame)
        try:
            await live.end()
        except LiveAnchorServiceError as error:
            await self._fail(error)

    async def _interrupt(self, frame: InterruptionFrame, direction: FrameDirection) -> None:
        self._open = False
        self._stops.clear()
        self._leaving.clear()
        self._quiet.set()
        asking = None
        if self._live is not None:
            asking = asyncio.ensure_future(self._live.interrupt())
            await asyncio.sleep(0)  # from here on nothing old is pushed
        await self.push_frame(frame, direction)
        if asking is not None:
            try:
                await asking
            except LiveAnchorServiceError as error:
                await self._fail(error)

    async def _step(self, step: Step) -> None:
        """Hand a step on, to a transport with `smallwebrtc_params`.

        The transport plays voice as soon as it comes; where voice is late by a moment, it puts silence between and stays behind
        from then on. So speech begins with one step of silence, which makes good for what is late; a picture is shown at once,
        therefore it is handed on with the voice of the step after its own. In pauses no voice is handed on, which ends what is
        left of a delay, and no picture waits.
        """
        if not self._ready:
            return
        newest = step.picture or self._picture
        shown = newest if step.silent else self._picture or newest
        self._picture = newest
        if not step.silent:
            if self._rests:
                await self._push_voice(np.zeros_like(step.pcm))
            await self._push_voice(step.pcm)
            await asyncio.sleep(PACKING_S)
        if shown is not None:
            await self.push_frame(OutputImageRawFrame(image=shown.rgb, size=(shown.width, shown.height), format="RGB"))
        self._rests = step.silent
        while self._leaving and self._leaving[0][0] <= step.index:
            await self.push_frame(self._leaving.popleft()[1])
            if not (self._leaving or self._stops or self._open):
                self._quiet.set()

    async def _push_voice(self, samples: Samples) -> None:
        every = RATE_HZ // self._out_rate if self._out_rate and RATE_HZ % self._out_rate == 0 else 1
        pcm = samples[::every].tobytes()  # the voice has nothing above 8 kHz, so samples may be left out
        await self.push_frame(SpeechOutputAudioRawFrame(audio=pcm, sample_rate=RATE_HZ // every, num_channels=1))

    def _event(self, event: dict[str, Any]) -> None:
        if event["name"] == "speaking_finished" and not event.get("interrupted") and self._stops and self._live:
            self._leaving.append((self._live.step_of(event), self._stops.popleft()))

    def _lost(self, error: LiveAnchorServiceError) -> None:
        self.create_task(self._fail(error), name="liveanchor-lost")

    async def _fail(self, error: LiveAnchorServiceError) -> None:
        """From now on the voice goes on without a picture."""
        live, self._live = self._live, None
        self._quiet.set()
        await self.push_error(error_msg=str(error), exception=error, force_treat_as_permanent=not error.retryable)
        for stop in (*(stop for _, stop in self._leaving), *self._stops):
            await self.push_frame(stop)
        self._leaving.clear()
        self._stops.clear()
        if live is not None:
            await live.close()

    async def _teardown(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            await live.close()
        if self._own_http and self._http is not None:
            await self._http.close()
            self._http = None


def _mono(pcm: bytes, channels: int) -> bytes:
    if channels == 1:
        return pcm
    return np.frombuffer(pcm, "<i2").reshape(-1, channels).mean(axis=1).astype("<i2").tobytes()
