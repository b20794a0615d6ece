"""What tests of live sessions share: a clock that stands still until it is told, stages that can stall, a sink that remembers."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from engines.motion_layout import EXP, MOTION_DIM
from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.config import SessionSettings, SilenceSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.live.contracts import MICROPHONE_RATE_HZ, Drive, EndReason, LiveEvent, VideoTick, VoiceTick
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.session import LiveSession
from pipeline.live.settings import LiveSettings
from pipeline.media.resample import resample
from pipeline.mini.motion_diffusion import MotionCarry
from pipeline.stage_meter import StageMeter
from pipeline.stages import Carry, CropsInWork, RenderRequest, RifeRequest, StageInfo
from pipeline.types import Avatar, FaceRect, FeatureRows, MotionChunk, Nv12RectBatch

MARK = EXP.start
SPOKEN_FROM = 10_000
"""Spoken motion has 10 000 + frame at coordinate `MARK`; pictures carry that number in their first four bytes."""


class FakeClock:
    """`LiveClock` that moves only in `advance`."""

    def __init__(self) -> None:
        self._now = 100.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> float:
        return self._now

    async def sleep_until(self, when: float) -> None:
        if when <= self._now:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (when, self._count, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass; everything that was to happen meanwhile happens at its time."""
        end = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end + 1e-9:
            when, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self._now = max(self._now, when)
            future.set_result(None)
            await settle()
        self._now = max(self._now, end)

    def jump(self, seconds: float) -> None:
        """The machine stood still: time passed and nothing ran."""
        self._now += seconds


async def settle(rounds: int = 12) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


class BrokenStageError(LiveAnchorError):
    """What a broken fake stage answers."""


@dataclass
class LiveFakeStages:
    """Stages on a fake clock.

    Attributes:
        clock: Latencies pass on it.
        latency_s: Of every call, by stage.
        broken: Stages that answer with an error.
        stalled_until: Calls of a stage that answer at this time at the earliest.
        requests: Every render request.
        hops: First frame of every motion hop.
        cancelled: Calls that were cancelled.
        in_flight: Calls in work.
    """

    clock: FakeClock
    info: StageInfo = StageInfo("fake", 8, 640, 1640, 25, True, hop_choices=(4,))
    latency_s: dict[str, float] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    stalled_until: dict[str, float] = field(default_factory=dict)
    requests: list[RenderRequest] = field(default_factory=list)
    hops: list[int] = field(default_factory=list)
    carries: list[MotionCarry] = field(default_factory=list)
    windows: dict[int, F32] = field(default_factory=dict)
    cancelled: int = 0
    in_flight: int = 0

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        await self._take_time("audio_features")
        frames = (len(window) - self.info.context_samples - self.info.lookahead_samples) // 640
        self.windows[first_row // 2] = window
        return FeatureRows(np.zeros((2 * frames, 4), np.float32), 50, first_row)

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        assert isinstance(carry, MotionCarry)
        await self._take_time("motion_diffusion")
        first, count = rows.first_row // 2, len(rows.rows) // 2
        assert carry.next_frame == first, "hops are consecutive"
        self.hops.append(first)
        self.carries.append(carry)
        motion = np.zeros((count, MOTION_DIM), np.float32)
        motion[:, MARK] = SPOKEN_FROM + np.arange(first, first + count)
        return MotionChunk(motion, first), replace(carry, next_frame=first + count)

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        self.requests.append(request)
        await self._take_time("renderer")
        marks = request.motion.motion[:, MARK]
        if request.fps == 50:
            after = marks[-1] if request.following is None else request.following[MARK]
            following = np.append(marks[1:], after)
            marks = np.stack([marks, (marks + following) / 2], axis=1).ravel()
        return pictures(marks)

    def crops(self, request: RenderRequest) -> CropsInWork:
        raise AssertionError("this family doubles in motion space")

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        raise AssertionError("this family doubles in motion space")

    async def _take_time(self, stage: str) -> None:
        self.in_flight += 1
        try:
            until = self.clock.now() + self.latency_s.get(stage, 0.0)
            await self.clock.sleep_until(max(until, self.stalled_until.get(stage, 0.0)))
            if stage in self.broken:
                raise BrokenStageError(stage)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1


def pictures(marks: F32) -> Nv12RectBatch:
    """Pictures of 4 x 2 pixels that carry ten times a number each."""
    luma = np.zeros((len(marks), 2, 4), np.uint8)
    luma[:, 0] = np.round(marks * 10).astype("<i4").view(np.uint8).reshape(-1, 4)
    return Nv12RectBatch(FaceRect(0, 0, 4, 2), luma, np.zeros((len(marks), 1, 4), np.uint8))


def mark_of(tick: VideoTick) -> float | None:
    """The number that a picture carries; None for a repeat."""
    return None if tick.rect is None else int(tick.rect.y_plane[0].copy().view("<i4")[0]) / 10


def spoken_frame(tick: VideoTick) -> float | None:
    """The frame of speech that a picture shows; None for others."""
    mark = mark_of(tick)
    spoken = mark is not None and SPOKEN_FROM <= mark < 10 * SPOKEN_FROM  # beyond lies the avatar's still picture
    return mark - SPOKEN_FROM if mark is not None and spoken else None


@dataclass
class RecordingSink:
    """Keeps everything."""

    videos: list[VideoTick] = field(default_factory=list)
    voices: list[VoiceTick] = field(default_factory=list)
    events: list[LiveEvent] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, in real time, until something is true after a tick."""
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    def video(self, tick: VideoTick) -> None:
        self.videos.append(tick)
        self.changed.set()

    def voice(self, tick: VoiceTick) -> None:
        self.voices.append(tick)

    def event(self, event: LiveEvent) -> None:
        self.events.append(event)

    def heard(self) -> F32:
        """The voice so far."""
        heard: F32 = np.concatenate([voice.pcm for voice in self.voices])
        return heard

    def named(self, name: str) -> list[LiveEvent]:
        return [event for event in self.events if event.name == name]


def fake_avatar() -> Avatar:
    return Avatar(
        avatar_id="ab" * 16,
        family="mini",
        name="",
        canvas_rgb=np.full((8, 8, 3), 90, np.uint8),
        rect=FaceRect(0, 0, 4, 2),
        crop_to_canvas=np.zeros((2, 3), np.float32),
        mask=np.zeros((512, 512), np.float32),
        tensors={},
    )


def tone(seconds: float, amplitude: float = 0.3) -> F32:
    wave: F32 = (amplitude * np.sin(np.arange(round(seconds * 16_000)) * 0.2)).astype(np.float32)
    return wave


def heard_at_48_khz(pcm: F32) -> F32:
    """16 kHz samples as a transport hands them over, three for each."""
    samples = resample(pcm[:, None], 16_000, MICROPHONE_RATE_HZ)[:, 0]
    return np.pad(samples, (0, max(3 * len(pcm) - len(samples), 0)))[: 3 * len(pcm)]


@dataclass
class Stage:
    """A session that runs, and what surrounds it."""

    clock: FakeClock
    stages: LiveFakeStages
    loop_stages: LiveFakeStages
    sink: RecordingSink
    session: LiveSession
    task: asyncio.Task[EndReason]
    place: int = 0

    async def speak_into_microphone(self, pcm: F32, block: int = 320) -> None:
        """Feed 16 kHz samples in blocks at the speed of sound."""
        samples = heard_at_48_khz(pcm)
        for start in range(0, len(pcm), block):
            piece = samples[3 * start : 3 * (start + block)]
            await self.clock.advance(len(piece) / MICROPHONE_RATE_HZ)
            self.hand_over(piece)
            await settle()

    def hand_over(self, samples: F32) -> None:
        """Feed 48 kHz samples that follow on what came last."""
        self.session.feed(samples, self.place)
        self.place += len(samples)


@asynccontextmanager
async def live(
    drive: Drive = Drive.PUSH,
    fps: int = 25,
    *,
    connect: bool = True,
    warm: bool = True,
    settings: LiveSettings | None = None,
    stages: LiveFakeStages | None = None,
    clock: FakeClock | None = None,
    crowded: Callable[[], bool] = lambda: False,
    looks: Looks = NEUTRAL_FACE,
    listens: bool = False,
) -> AsyncGenerator[Stage, None]:
    """A running session, ended afterwards."""
    clock = clock or (stages.clock if stages else FakeClock())
    stages = stages or LiveFakeStages(clock)
    settings = settings or LiveSettings(idle_loop_frames=100)
    loop_stages = LiveFakeStages(clock)
    loops, sink, avatar = IdleLoops(loop_stages, settings), RecordingSink(), fake_avatar()
    picture = SessionSettings.model_validate({"fps": fps, "silence": SilenceSettings()})
    if warm:
        await loops.draw(loops.open(avatar, picture), avatar, picture)
    metered = StageMeter(stages, clock.now)
    session = LiveSession(
        "s", metered, avatar, loops, sink, settings, picture, drive, 7, clock,
        crowded=crowded, looks=looks, listens=listens,
    )  # fmt: skip
    task = asyncio.create_task(session.run())
    await settle()
    if connect:
        session.connected()
        await settle()
    try:
        yield Stage(clock, stages, loop_stages, sink, session, task)
    finally:
        session.end(EndReason.DELETED)
        await clock.advance(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await loops.close()
