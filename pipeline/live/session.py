"""A live session: one media clock, a voice that is delayed until the lips are ready, and a face that never stands still.

Every tick of the clock shows one picture and lets one stretch of voice be heard. Nothing else happens on the tick: stage calls are
made by a task of their own and are never waited for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.config import SessionSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.live.contracts import Drive, EndReason, LiveClock, LiveSink, LiveState, VideoTick
from pipeline.live.deadlines import Deadlines
from pipeline.live.driving_voice import DrivingVoice
from pipeline.live.hop_choice import HopChoice
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.input_rate import RATE_WINDOW_S
from pipeline.live.lifetime import Lifetime
from pipeline.live.lip_delay import LipDelay
from pipeline.live.other_side import OtherSide
from pipeline.live.performer import Performer
from pipeline.live.picture_quality import PictureQuality
from pipeline.live.picture_shelf import PictureShelf
from pipeline.live.settings import LiveSettings
from pipeline.live.speaking_state import SpeakingState
from pipeline.live.stats import Interruption, LiveStats
from pipeline.live.timeline import Timeline
from pipeline.session.attention import Attention
from pipeline.session.behaviour import MotionBehaviour, behaviour_of
from pipeline.session.expressed import Expressed
from pipeline.session.motion_maker import Opening
from pipeline.session.speech_scan import SpeechScan
from pipeline.stage_meter import StageMeter
from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, Avatar, Nv12Rect

CLOCK_STALL_S: Final = 0.5
"""When ticks come later than this, the media clock stood still: what was missed is not made up for."""
LOOP_RETRY_S: Final = 2.0
_CALL_RESERVE: Final = 1.25
"""Calls bound themselves by `stage_call_s`; one that does not is given up a little later."""


class LiveSession:
    """Runs one live session, without any transport.

    Args:
        session_id: Name of the session in events and logs.
        stages: The stage calls, metered on the session's clock.
        avatar: Face that is shown.
        idle_loops: Idle loops that all sessions of the replica share.
        sink: Takes pictures, voice and events.
        settings: How sessions behave.
        picture: Frame rate (25 or 50), colour, and what counts as speech; its `chunk_frames` is not used.
        drive: Source of the voice that drives the face.
        seed: Seed of everything that is left to chance.
        clock: Media clock of the session.
        behaviour: How the avatar idles and begins to speak; asked of its family where None.
        crowded: Whether the stages have so much to do that utterances should ask them less often, in longer hops.
        looks: What the face expresses, by seconds of the session.
        listens: Whether it hears its client's microphone, though pushed speech drives the face.

    Attributes:
        voice: The voice that drives the face; pushed speech is given to it.
        other_side: The voice that it listens to; None where it does not.

    Raises:
        InvalidInputError: A frame rate that live sessions cannot have, or looks that the avatar's family cannot show.
    """

    def __init__(
        self,
        session_id: str,
        stages: StageMeter,
        avatar: Avatar,
        idle_loops: IdleLoops,
        sink: LiveSink,
        settings: LiveSettings,
        picture: SessionSettings,
        drive: Drive,
        seed: int,
        clock: LiveClock,
        behaviour: MotionBehaviour | None = None,
        crowded: Callable[[], bool] = lambda: False,
        looks: Looks = NEUTRAL_FACE,
        listens: bool = False,
    ) -> None:
        self.session_id = session_id
        self._avatar, self._idle_loops, self._sink = avatar, idle_loops, sink
        self._settings, self._picture, self._drive, self._clock = settings, picture, drive, clock
        behaviour = behaviour or behaviour_of(avatar)
        self._stages = stages
        self._loop = idle_loops.open(avatar, picture, behaviour)
        self._grid = self._loop.grid
        timeline = Timeline()
        scan = SpeechScan(timeline.levelled, picture.silence)
        hops = HopChoice(stages.info, settings.hop_frames, crowded)
        self._delay = LipDelay(self._stages, settings, hops, self._grid)
        self.voice = DrivingVoice(
            drive,
            timeline,
            scan,
            self._delay,
            picture.silence.close_rms,
            settings.max_queued_speech_s,
            session_id,
            self._now,
            clock.now,
            self._wake,
            self._marked,
        )
        microphone = self.voice.microphone if drive is Drive.MIC else None
        self.other_side = OtherSide(picture.silence.close_rms) if listens else None
        deadlines = Deadlines(
            self._stages, lambda: self._delay.begin(microphone), timeline, lambda: self.voice.more_may_come, self._now
        )
        cadence = deadlines.cadence
        self._shelf = PictureShelf(
            self._stages, avatar.avatar_id, picture, cadence.chunk_frames, self._grid, self._now, self._wake
        )
        opening = Opening(behaviour, self._stages, seed, cadence.hop_frames)
        other = self.other_side
        attention = Attention(other.voice, timeline.levelled, seed, crowded) if other is not None else None
        expressed = Expressed(avatar, looks, timeline.levelled, seed, attention)
        self._performer = Performer(
            self._stages, self._loop, opening, timeline, scan, self._shelf, deadlines, expressed
        )
        self._speaking = SpeakingState(session_id, sink.event, lambda: self._grid.pts_s(self._tick_number))
        self._life = Lifetime(clock, settings.connect_timeout_s)
        self._begun: float | None = None
        self._start: float | None = None
        self._tick_number = 0
        self._tick_times: deque[float] = deque(maxlen=int(RATE_WINDOW_S * self._grid.fps) + 1)
        self._last_rect: Nv12Rect | None = None
        self._last_speech = 0
        self._repeated = 0
        self._quality = PictureQuality(self._grid.fps)
        self._av_offset_ms = 0.0

    @property
    def state(self) -> LiveState:
        """Where the session is in its life."""
        return self._speaking.state

    @property
    def reason(self) -> EndReason | None:
        """Why the session ends or has ended; None while it lives."""
        return self._life.reason

    @property
    def epoch(self) -> int:
        """Interruptions so far."""
        return self._speaking.epoch

    @property
    def waiting_s(self) -> float:
        """Seconds of speech that wait to be heard."""
        return self.voice.waiting / SAMPLE_RATE_HZ

    async def run(self) -> EndReason:
        """Live until the end; cancelling it ends the session, too. Nothing of the session is left afterwards."""
        self._begun = self._clock.now()
        drawing = asyncio.create_task(self._draw_loop())
        try:
            if await self._life.client_came():
                self._performer.start()
                await self._play()
            return self._life.reason or EndReason.FAILED
        finally:
            self._speaking.state = LiveState.ENDED
            drawing.cancel()
            await asyncio.gather(drawing, return_exceptions=True)
            await self._performer.close()
            self._speaking.event("ended", detail=str(self._life.reason or "cancelled"))

    def connected(self) -> None:
        """The client is there: pictures may flow."""
        self._life.connected()

    def end(self, reason: EndReason) -> None:
        """End the session; the first reason counts."""
        self._life.end(reason)

    def feed(self, samples: F32, place: int, age_s: float = 0.0) -> int:
        """Take samples of the microphone; they are left out unless it drives the face or is listened to, and the session plays.

        Args:
            samples: float32 (n,), 48 kHz; none where nothing was heard up to `place`.
            place: Position of the first one on the client's clock; what lies between it and the last one is silence.
            age_s: Seconds for which the first one has been here.

        Returns:
            How many samples more, at 16 kHz, complete what the next frame of motion is made of: fewer are of no use yet.
        """
        if self._life.reason is not None:
            return SAMPLES_PER_FRAME
        age = int(age_s * SAMPLE_RATE_HZ)
        if self.other_side is None:
            self.voice.feed(samples, place, self._tick_number, age)
        elif self._start is not None:
            self.other_side.feed(samples, place, self._now(), age)
        beyond = self.voice.microphone.end - self._stages.info.lookahead_samples
        return SAMPLES_PER_FRAME - beyond % SAMPLES_PER_FRAME

    def interrupt(self) -> Interruption:
        """Stop speaking now: sound ends with the next tick, what waits is dropped. Without speech nothing happens."""
        speaking = self._speaking
        if not self.voice.pending or self._life.reason is not None or speaking.state is LiveState.ENDED:
            return Interruption(0.0, None, speaking.epoch)
        speaking.epoch += 1
        cut = self.voice.cut(self._tick_number * self._grid.samples_per_tick)
        self._performer.interrupt(speaking.epoch, self._tick_number)
        speaking.interrupted(cut)
        return Interruption(cut[0].sent / SAMPLE_RATE_HZ, cut[0].utterance_id, speaking.epoch)

    def express(self, looks: Looks) -> float:
        """Express something else as soon as it can be drawn; the times of `looks` count from then.

        Returns:
            Second of the session at which the change begins.

        Raises:
            InvalidInputError: The avatar's family cannot show it, and it names the part; or too many changes are under way.
        """
        return self._performer.express(looks) / MOTION_FPS

    def complain(self, detail: str, utterance_id: str | None = None) -> None:
        """Tell the client of a failure that does not end the session."""
        self.tell("error", detail, utterance_id)

    def tell(self, name: str, detail: str = "", utterance_id: str | None = None) -> None:
        """Send the client an event; the arguments are fields of `LiveEvent`."""
        self._speaking.event(name, utterance_id=utterance_id, detail=detail)

    def warn(self, seconds: float) -> None:
        """Tell the client that the service ends in so many seconds, and this session with it."""
        self._speaking.event("draining", detail=f"{seconds:g}")

    def stats(self) -> LiveStats:
        """Numbers of now."""
        now = self._clock.now()
        percentiles = self._stages.times.percentiles_ms()
        ticks, microphone = self._tick_times, self.voice.microphone
        parts = self._delay.parts_ms(microphone if self._drive is Drive.MIC else None)
        return LiveStats(
            session_id=self.session_id,
            state=self._speaking.state.value,
            drive=self._drive.value,
            avatar_id=self._avatar.avatar_id,
            epoch=self._speaking.epoch,
            fps=self._grid.fps,
            fps_in=self.voice.rate.frames_per_second,
            fps_out=(len(ticks) - 1) / (ticks[-1] - ticks[0]) if len(ticks) > 1 and ticks[-1] > ticks[0] else 0.0,
            av_offset_ms=self._av_offset_ms,
            delay_ms=sum(parts.values()),
            delay_parts_ms=parts,
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
            quality=self._quality.now.value,
            frames_dropped=self._shelf.dropped,
            input_inserted_ms=1000 * microphone.inserted / SAMPLE_RATE_HZ,
            input_dropped_ms=1000 * microphone.dropped / SAMPLE_RATE_HZ,
            input_drift_ppm=microphone.drift_ppm,
            speaking=self._speaking.state is LiveState.SPEAKING,
            utterances=self._speaking.utterances,
            interruptions=self._speaking.epoch,
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

    async def _play(self) -> None:
        start = self._start = self._clock.now()
        self.voice.begin()
        self._speaking.state = LiveState.IDLE
        self._speaking.event("connected")
        while self._life.reason is None:
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
            self._delay.late(tick)
        if (quality := self._quality.note(late, self._stages.away_s)) is not None:
            self._speaking.event("quality", detail=quality.value)
        shown = None if rect is self._last_rect else rect
        self._last_rect = rect or self._last_rect
        video = VideoTick(tick, self._grid.pts_s(tick), shown, late)
        voice, heard, over = self.voice.hear(tick * self._grid.samples_per_tick, self._grid.samples_per_tick)
        if heard or self._speaking.state is LiveState.SPEAKING:
            self._last_speech = voice.pts_samples + len(voice.pcm)
        self._sink.video(video)
        self._sink.voice(voice)
        self._av_offset_ms = 1000 * (video.pts_s - voice.pts_samples / SAMPLE_RATE_HZ)
        self._speaking.heard(over, self.voice.current)
        self.voice.go_on()

    def _watch_over(self) -> None:
        """Ends that come by themselves."""
        if self._clock.now() - (self._start or 0.0) >= self._settings.max_duration_s:
            self.end(EndReason.MAX_DURATION)
        elif (self._now() - self._last_heard) / SAMPLE_RATE_HZ >= self._settings.idle_ttl_s:
            self.end(EndReason.IDLE_TTL)
        if self._stages.waiting_s > _CALL_RESERVE * self._settings.stage_call_s:
            self._stages.failed("stalled")
            self._performer.restart()
        if self._stages.failing_s > self._settings.stages_timeout_s:
            self._fail("a stage of the pipeline does not answer")
        elif (fault := self._performer.fault) is not None:
            self._fail(f"the session broke: {type(fault).__name__}")

    def _fail(self, detail: str) -> None:
        if self._life.reason is None:
            self.complain(detail)
            self.end(EndReason.FAILED)

    @property
    def _last_heard(self) -> int:
        """Position after the last speech, the face's own or that of the other side."""
        return self._last_speech if self.other_side is None else max(self._last_speech, self.other_side.last_loud)

    def _now(self) -> int:
        """Position of the media clock in samples."""
        return 0 if self._start is None else max(int((self._clock.now() - self._start) * SAMPLE_RATE_HZ + 0.5), 0)

    def _marked(self, position: int, looks: Looks) -> None:
        """A text changes the face at a place of the timeline."""
        try:
            self._performer.express_at(looks, position / SAMPLE_RATE_HZ)
        except InvalidInputError as error:
            self.complain(str(error))

    def _wake(self) -> None:
        self._performer.wake()
