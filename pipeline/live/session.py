"""A live session: one media clock, a voice that is delayed until the lips are ready, and a face that never stands still.

Every tick of the clock shows one picture and lets one stretch of voice be heard. Nothing else happens on the tick: stage calls are
made by a task beside it and are never waited for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import numpy as np

from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.behaviour import MotionBehaviour, behaviour_of
from pipeline.config import SessionSettings
from pipeline.live.contracts import Drive, EndReason, LiveClock, LiveEvent, LiveSink, LiveState, VideoTick, VoiceTick
from pipeline.live.grid import samples_of_ms
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.mic_voice import MicVoice
from pipeline.live.microphone import Microphone
from pipeline.live.performer import PREROLL_FRAMES, Cadence, Performer
from pipeline.live.picture_shelf import PictureShelf
from pipeline.live.settings import LiveSettings
from pipeline.live.speech_queue import LeadTimes, SpeechQueue, Utterance
from pipeline.live.speech_scan import SpeechScan
from pipeline.live.stage_meter import MeteredStages
from pipeline.live.stats import Interruption, LiveStats
from pipeline.live.timeline import Timeline
from pipeline.stages import Stages
from pipeline.types import F32, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, Avatar, Nv12Rect

FADE_OUT: Final = samples_of_ms(10)
"""How a voice that is cut ends: it falls to silence instead of clicking."""
CLOCK_STALL_S: Final = 0.5
"""When ticks come later than this, the media clock stood still: what was missed is not made up for."""
DEAD_AFTER_S: Final = 10.0
"""A session ends when a stage has failed for so long."""
LOOP_RETRY_S: Final = 2.0
LATE_TICKS: Final = 8
LATE_WITHIN_S: Final = 3.0
"""So many late pictures in so short a time: who speaks without a pause gets more time at once."""
_CHAIN_RESERVE: Final = 1.25
LONGEST_CHAIN_S: Final = 0.5
"""Slower stages cost pictures, not time: people talk to each other."""
_CALL_RESERVE: Final = 1.25
"""Calls bound themselves by `stage_call_s`; one that does not is given up a little later."""
_RATE_WINDOW_S: Final = 2.0


class LiveSession:
    """One session, without any transport.

    Args:
        session_id: For events and logs.
        stages: The stage calls.
        avatar: Whose face.
        idle_loops: Of the replica.
        sink: Takes pictures, voice and events.
        settings: How sessions behave.
        picture: Frame rate (25 or 50), colour, when somebody speaks; its `chunk_frames` is not used.
        drive: Whose voice drives the face.
        seed: Of everything that is left to chance.
        clock: Time.
        behaviour: `behaviour_of(avatar)` where it is at hand.

    Raises:
        InvalidInputError: A frame rate that live sessions cannot have.
    """

    def __init__(
        self,
        session_id: str,
        stages: Stages,
        avatar: Avatar,
        idle_loops: IdleLoops,
        sink: LiveSink,
        settings: LiveSettings,
        picture: SessionSettings,
        drive: Drive,
        seed: int,
        clock: LiveClock,
        behaviour: MotionBehaviour | None = None,
    ) -> None:
        self.session_id = session_id
        self._avatar, self._idle_loops, self._sink = avatar, idle_loops, sink
        self._settings, self._picture, self._drive, self._clock = settings, picture, drive, clock
        behaviour = behaviour or behaviour_of(avatar)
        self._stages = MeteredStages(stages, clock)
        self._loop = idle_loops.open(avatar, picture, behaviour)
        self._grid = self._loop.grid
        self._timeline = Timeline()
        self._scan = SpeechScan(self._timeline, picture.silence)
        info = stages.info
        hop = settings.hop_frames if settings.hop_frames in info.hop_choices else info.hop_frames
        gate_frames = min(info.lookahead_frames, info.lookahead_samples // SAMPLES_PER_FRAME)
        self._margin = samples_of_ms(settings.margin_ms)
        self._needed = hop * SAMPLES_PER_FRAME + max(info.lookahead_samples, gate_frames * SAMPLES_PER_FRAME)
        if self._grid.ticks_per_frame > 1:
            self._needed += SAMPLES_PER_FRAME  # the frame after the last one is needed, too
        quiet = picture.silence.close_rms
        self._microphone = Microphone(self._timeline, self._needed + self._margin, quiet)
        self._mic = MicVoice(self._microphone, self._scan, quiet, f"{session_id}-mic")
        self._queue = SpeechQueue(self._timeline, settings.max_queued_speech_s, f"{session_id}-speech")
        chunk_frames = settings.chunk_frames if hop % settings.chunk_frames == 0 else hop
        self._speaker: MicVoice | SpeechQueue = self._mic if drive is Drive.MIC else self._queue
        self._shelf = PictureShelf(
            self._stages, avatar.avatar_id, picture, chunk_frames, self._grid, self._now, self._wake
        )
        self._performer = Performer(
            self._stages,
            self._loop,
            behaviour,
            self._timeline,
            self._scan,
            self._shelf,
            Cadence(hop, gate_frames, self._margin),
            seed,
            lambda: self._drive is Drive.MIC or self._queue.more_may_come,
            self._now,
        )
        self._silence: F32 = np.zeros(self._grid.samples_per_tick, np.float32)
        self._silence.setflags(write=False)
        self._state = LiveState.CONNECTING
        self._connected = asyncio.Event()
        self._ending = asyncio.Event()
        self._reason: EndReason | None = None
        self._begun: float | None = None
        self._start: float | None = None
        self._tick_number = 0
        self._tick_times: deque[float] = deque(maxlen=int(_RATE_WINDOW_S * self._grid.fps) + 1)
        self._fed: deque[tuple[float, int]] = deque()
        self._last_rect: Nv12Rect | None = None
        self._late_ticks: deque[int] = deque(maxlen=LATE_TICKS)
        self._cut_until = 0
        self._last_speech = 0
        self._epoch = 0
        self._repeated = self._utterances = self._interruptions = 0
        self._first_frame_ms: float | None = None
        self._connected_at = 0.0
        self._av_offset_ms = 0.0

    @property
    def state(self) -> LiveState:
        """Where the session is in its life."""
        return self._state

    @property
    def reason(self) -> EndReason | None:
        """Why the session ends or has ended; None while it lives."""
        return self._reason

    @property
    def epoch(self) -> int:
        """Interruptions so far."""
        return self._epoch

    @property
    def waiting_s(self) -> float:
        """Seconds of speech that wait to be heard."""
        mic = self._drive is Drive.MIC
        samples = max(self._timeline.end - self._now(), 0) if mic else self._queue.queued_samples
        return samples / SAMPLE_RATE_HZ

    async def run(self) -> EndReason:
        """Live until the end; cancelling it ends the session, too. Nothing of the session is left afterwards."""
        self._begun = self._clock.now()
        drawing = asyncio.create_task(self._draw_loop())
        try:
            if await self._is_connected():
                self._performer.start()
                await self._play()
            return self._reason or EndReason.FAILED
        finally:
            self._state = LiveState.ENDED
            drawing.cancel()
            await asyncio.gather(drawing, return_exceptions=True)
            await self._performer.close()
            self._event("ended", detail=str(self._reason or "cancelled"))

    def connected(self) -> None:
        """The client is there: pictures may flow."""
        if not self._connected.is_set():
            self._connected_at = self._clock.now()
            self._connected.set()

    def end(self, reason: EndReason) -> None:
        """End the session; the first reason counts."""
        if self._reason is None:
            self._reason = reason
            self._ending.set()

    def feed(self, pcm: F32) -> None:
        """Microphone samples, float32 (n,), 16 kHz, consecutive; left out unless the microphone drives the face and plays."""
        if self._drive is not Drive.MIC or self._start is None or self._reason is not None or not len(pcm):
            return
        self._note_input(len(pcm))
        self._adapt_delay()
        self._mic.feed(_finite(pcm), self._now())
        self._wake()

    def speak(self, pcm: F32) -> str:
        """Queue one utterance, float32 (n,), 16 kHz mono.

        Returns:
            Its id.

        Raises:
            InvalidInputError: No samples, or a microphone drives the face.
            QueueFullError: More speech waits than `max_queued_speech_s`.
        """
        self._only_pushed()
        if not len(pcm):
            raise InvalidInputError("audio", "0 samples", "at least one sample")
        utterance_id = self._queue.speak(_finite(pcm), self._now())
        self._pump(len(pcm))
        return utterance_id

    def push(self, pcm: F32) -> str:
        """Add to the open utterance, or begin one, float32 (n,), 16 kHz mono, any length.

        Returns:
            The utterance's id.

        Raises:
            InvalidInputError: A microphone drives the face.
            QueueFullError: More speech waits than `max_queued_speech_s`.
        """
        self._only_pushed()
        utterance_id = self._queue.push(_finite(pcm), self._now())
        self._pump(len(pcm))
        return utterance_id

    def finish_utterance(self) -> str | None:
        """Nothing more comes of the open utterance; its id, None where none is open."""
        utterance_id = self._queue.finish()
        self._pump(0)
        return utterance_id

    def interrupt(self) -> Interruption:
        """Stop speaking now: sound ends with the next tick, what waits is dropped. Where nobody speaks, nothing happens."""
        if not self._speaker.pending or self._reason is not None or self._state is LiveState.ENDED:
            return Interruption(0.0, None, self._epoch)
        self._epoch += 1
        self._interruptions += 1
        position = self._tick_number * self._grid.samples_per_tick
        current = self._speaker.current
        self._timeline.cut(position, FADE_OUT if current is not None and current.sent else 0)
        end = max(position, self._timeline.end)
        cut = self._speaker.cut(end)
        if any(utterance.sent for utterance in cut):
            self._cut_until = end
        self._performer.interrupt(self._epoch, self._tick_number)
        self._event("interrupted", utterance_id=cut[0].utterance_id)
        for utterance in cut:
            self._finished(utterance, interrupted=True)
        self._settle_state()
        return Interruption(cut[0].sent / SAMPLE_RATE_HZ, cut[0].utterance_id, self._epoch)

    def stats(self) -> LiveStats:
        """Numbers of now."""
        now = self._clock.now()
        percentiles = self._stages.percentiles_ms()
        ticks = self._tick_times
        fed = sum(count for when, count in self._fed if when > now - _RATE_WINDOW_S)
        return LiveStats(
            session_id=self.session_id,
            state=self._state.value,
            drive=self._drive.value,
            avatar_id=self._avatar.avatar_id,
            epoch=self._epoch,
            fps=self._grid.fps,
            fps_in=fed / SAMPLES_PER_FRAME / _RATE_WINDOW_S,
            fps_out=(len(ticks) - 1) / (ticks[-1] - ticks[0]) if len(ticks) > 1 and ticks[-1] > ticks[0] else 0.0,
            av_offset_ms=self._av_offset_ms,
            delay_ms=1000
            * (self._microphone.delay if self._drive is Drive.MIC else self._leads().start)
            / SAMPLE_RATE_HZ,
            queue_depths={
                "speech_ms": 1000 * self.waiting_s,
                "pictures": len(self._shelf),
                "renders": self._shelf.in_flight,
            },
            stage_calls=dict(self._stages.calls),
            stage_failures=dict(self._stages.failures),
            stage_p50_ms={stage: p50 for stage, (p50, _) in percentiles.items()},
            stage_p95_ms={stage: p95 for stage, (_, p95) in percentiles.items()},
            frames=self._tick_number,
            frames_repeated=self._repeated,
            frames_dropped=self._shelf.dropped,
            input_inserted_ms=1000 * self._microphone.inserted / SAMPLE_RATE_HZ,
            input_dropped_ms=1000 * self._microphone.dropped / SAMPLE_RATE_HZ,
            first_frame_ms=self._first_frame_ms,
            speaking=self._state is LiveState.SPEAKING,
            utterances=self._utterances,
            interruptions=self._interruptions,
            uptime_s=0.0 if self._begun is None else now - self._begun,
        )

    async def _draw_loop(self) -> None:
        """Get the loop's pictures; a stage that fails is asked again later, meanwhile the still picture is shown."""
        while True:
            try:
                await self._idle_loops.draw(self._loop, self._avatar, self._picture)
                return
            except LiveAnchorError:
                await self._clock.sleep_until(self._clock.now() + LOOP_RETRY_S)

    async def _is_connected(self) -> bool:
        """Wait for the client; False when the session ends before."""
        deadline = self._clock.now() + self._settings.connect_timeout_s
        waits = [
            asyncio.create_task(self._connected.wait()),
            asyncio.create_task(self._ending.wait()),
            asyncio.create_task(self._clock.sleep_until(deadline)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if not self._connected.is_set():
            self.end(EndReason.CONNECT_TIMEOUT)
        return self._reason is None

    async def _play(self) -> None:
        start = self._start = self._clock.now()
        self._state = LiveState.IDLE
        self._event("connected")
        while self._reason is None:
            due = start + self._tick_number / self._grid.fps
            await self._clock.sleep_until(due)
            behind = self._clock.now() - due
            if behind > CLOCK_STALL_S:
                start = self._start = start + behind
            self._tick(self._tick_number)
            self._tick_number += 1
            self._tick_times.append(self._clock.now())
            self._watch_over()

    def _tick(self, tick: int) -> None:
        rect, late = self._performer.take(tick)
        if late:
            self._repeated += 1
            self._late_ticks.append(tick)
        shown = None if rect is self._last_rect else rect
        self._last_rect = rect or self._last_rect
        video = VideoTick(tick, self._grid.pts_s(tick), shown, late)
        length = self._grid.samples_per_tick
        start = tick * length
        pcm = self._timeline.read(start, length) if start < self._timeline.end else self._silence
        heard, over = self._hear(start, start + length)
        self._sink.video(video)
        self._sink.voice(VoiceTick(pcm, start, heard > 0 or start < self._cut_until))
        self._av_offset_ms = 1000 * (video.pts_s - start / SAMPLE_RATE_HZ)
        if self._first_frame_ms is None:
            self._first_frame_ms = 1000 * (self._clock.now() - self._connected_at)
        for utterance in over:
            self._begins(utterance)
            self._finished(utterance, interrupted=False)
        current = self._speaker.current
        if current is not None and current.sent:
            self._begins(current)
        self._settle_state()
        if self._drive is Drive.PUSH and not self._queue.empty:
            self._pump(0)

    def _hear(self, start: int, until: int) -> tuple[int, list[Utterance]]:
        heard, over = self._speaker.hear(start, until)
        if heard or self._state is LiveState.SPEAKING:
            self._last_speech = until
        return heard, over

    def _begins(self, utterance: Utterance) -> None:
        if utterance.started:
            return
        utterance.started = True
        self._utterances += 1
        self._state = LiveState.SPEAKING
        self._event("speaking_started", utterance_id=utterance.utterance_id)

    def _finished(self, utterance: Utterance, *, interrupted: bool) -> None:
        self._event(
            "speaking_finished",
            position_s=utterance.sent / SAMPLE_RATE_HZ,
            interrupted=interrupted,
            utterance_id=utterance.utterance_id,
        )

    def _settle_state(self) -> None:
        current = self._speaker.current
        if self._state in (LiveState.IDLE, LiveState.SPEAKING):
            speaking = current is not None and current.started
            self._state = LiveState.SPEAKING if speaking else LiveState.IDLE

    def _watch_over(self) -> None:
        """Ends that come by themselves."""
        if self._clock.now() - (self._start or 0.0) >= self._settings.max_duration_s:
            self.end(EndReason.MAX_DURATION)
        elif (self._now() - self._last_speech) / SAMPLE_RATE_HZ >= self._settings.idle_ttl_s:
            self.end(EndReason.IDLE_TTL)
        if self._stages.waiting_s > _CALL_RESERVE * self._settings.stage_call_s:
            self._stages.stalled("stalled")
            self._performer.restart()
        worker = self._performer.worker
        if self._stages.failing_s > DEAD_AFTER_S:
            self._fail("a stage of the pipeline does not answer")
        elif worker is not None and worker.done() and not worker.cancelled():
            self._fail(f"the session broke: {type(worker.exception()).__name__}")

    def _fail(self, detail: str) -> None:
        if self._reason is None:
            self._event("error", detail=detail)
            self.end(EndReason.FAILED)

    def _pump(self, fresh: int) -> None:
        if fresh:
            self._note_input(fresh)
        if self._start is not None and self._queue.pump(self._now(), self._leads()):
            self._wake()

    def _leads(self) -> LeadTimes:
        compute = max(self._margin, self._chain())
        return LeadTimes(
            start=PREROLL_FRAMES * SAMPLES_PER_FRAME + compute,
            needed=SAMPLES_PER_FRAME + self._needed - PREROLL_FRAMES * SAMPLES_PER_FRAME,
            keep=self._needed + compute // 2,
        )

    def _chain(self) -> int:
        return int(min(self._stages.chain_s() * _CHAIN_RESERVE, LONGEST_CHAIN_S) * SAMPLE_RATE_HZ)

    def _adapt_delay(self) -> None:
        """Slower stages need more time; it is taken while nobody speaks, or when pictures come late again and again."""
        wanted = self._needed + max(self._margin, self._chain())
        change = wanted - self._microphone.delay
        if not self._mic.pending and (change > samples_of_ms(20) or change < -samples_of_ms(100)):
            self._microphone.delay = wanted
        elif change > samples_of_ms(10) and len(self._late_ticks) == LATE_TICKS:
            if self._tick_number - self._late_ticks[0] < LATE_WITHIN_S * self._grid.fps:
                self._microphone.grow(wanted)
            self._late_ticks.clear()

    def _only_pushed(self) -> None:
        if self._drive is not Drive.PUSH:
            raise InvalidInputError("drive", self._drive.value, Drive.PUSH.value, "the microphone drives this face")

    def _note_input(self, samples: int) -> None:
        now = self._clock.now()
        self._fed.append((now, samples))
        while self._fed and self._fed[0][0] < now - _RATE_WINDOW_S:
            self._fed.popleft()

    def _now(self) -> int:
        """Position of the media clock in samples."""
        return 0 if self._start is None else max(int((self._clock.now() - self._start) * SAMPLE_RATE_HZ + 0.5), 0)

    def _wake(self) -> None:
        self._performer.wake()

    def _event(
        self,
        name: str,
        *,
        position_s: float | None = None,
        interrupted: bool | None = None,
        utterance_id: str | None = None,
        detail: str = "",
    ) -> None:
        at_s = self._grid.pts_s(self._tick_number)
        self._sink.event(
            LiveEvent(name, self.session_id, self._epoch, at_s, position_s, interrupted, utterance_id, detail)
        )


def _finite(pcm: F32) -> F32:
    """float32 samples without NaN and infinity."""
    out = np.asarray(pcm, np.float32)
    return out if bool(np.isfinite(out).all()) else np.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0)
