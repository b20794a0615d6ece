"""File jobs as event streams over stages that answer at once, and the ingress's side of them over a scripted host."""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import av
import numpy as np
import pytest

pytest.importorskip("ray.serve")

from ray.exceptions import ActorDiedError
from ray.serve._private.common import DeploymentID
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException

from deployments.config import SessionHostSettings
from deployments.graph.errors import NotReadyError, StageLostError, StageOverloadedError
from deployments.graph.payload import Payload
from deployments.host.file_job import PreparedJob, prepare_job, run_job
from deployments.host.jobs import PIECE_BYTES, FileJob, JobBytes, JobDone, JobEvent, JobProgress, JobStarted
from deployments.limits import LimitSettings
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.config import EncoderSettings, SessionSettings
from pipeline.stage_meter import StageMeter
from pipeline.types import Avatar, FaceRect
from serve_app.http.ray_host import RayHost
from serve_app.http.services import start_job
from tests.support.fake_stages import FakeStages


def avatar() -> Avatar:
    return Avatar(
        avatar_id="a" * 32,
        family="mini",
        name="",
        canvas_rgb=np.zeros((64, 48, 3), np.uint8),
        rect=FaceRect(0, 0, 4, 2),
        crop_to_canvas=np.zeros((2, 3), np.float32),
        mask=np.zeros((512, 512), np.float32),
        tensors={},
    )


def wav(seconds: float) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((np.sin(np.arange(int(seconds * 16_000)) / 9) * 9000).astype("<i2").tobytes())
    return buffer.getvalue()


def prepared(seconds: float = 2.0, stream: bool = False) -> PreparedJob:
    job = FileJob("job-1", Payload(wav(seconds)), None, SessionSettings(), 1, stream)
    return prepare_job(job, lambda avatar_id: avatar(), SessionHostSettings())


def events_of(job: PreparedJob, stages: FakeStages) -> AsyncGenerator[JobEvent, None]:
    return run_job(job, StageMeter(stages), EncoderSettings(prefer="x264"), {"renderer": 1})


async def collect(events: AsyncGenerator[JobEvent, None]) -> list[JobEvent]:
    async with aclosing(events):
        return [event async for event in events]


def pictures(events: list[JobEvent]) -> int:
    pieces = [event for event in events if isinstance(event, JobBytes)]
    data = b"".join(piece.data for piece in sorted(pieces, key=lambda piece: piece.offset))
    with av.open(io.BytesIO(data)) as container:
        return sum(1 for _ in container.decode(video=0))


@pytest.mark.parametrize("stream", [False, True])
def test_events_of_a_job(stream: bool) -> None:
    events = asyncio.run(collect(events_of(prepared(2.0, stream), FakeStages())))
    assert events[0] == JobStarted("job-1", "a" * 32, 50, 25, 48, 64, 2.0)
    progress = [event for event in events if isinstance(event, JobProgress)]
    assert [one.done for one in progress] == sorted(one.done for one in progress)
    assert progress[-1] == JobProgress(50, 50)
    size = sum(len(event.data) for event in events if isinstance(event, JobBytes))
    calls = {"audio_features": 7, "motion_diffusion": 7, "renderer": 7}
    assert events[-1] == JobDone(size, "libx264", calls, {"renderer": 1})
    assert pictures(events) == 50
    pieces = [event for event in events if isinstance(event, JobBytes)]
    assert events.index(pieces[0]) < events.index(progress[-1]), "the file leaves while it is made"
    first = [piece.offset for piece in pieces].index(0)
    assert first == (0 if stream else len(pieces) - 1), (
        "a streamed file begins with its front, a finished one ends with it"
    )


@pytest.mark.parametrize("stream", [False, True])
def test_pieces_cover_the_file_and_none_is_larger_than_any_transport_takes(stream: bool) -> None:
    job = prepared(3.0, stream)
    job = replace(job, avatar=replace(job.avatar, canvas_rgb=np.zeros((640, 480, 3), np.uint8)))
    events = asyncio.run(collect(events_of(job, FakeStages())))
    pieces = sorted((event for event in events if isinstance(event, JobBytes)), key=lambda piece: piece.offset)
    assert all(0 < len(piece.data) <= PIECE_BYTES for piece in pieces)
    ends = [piece.offset + len(piece.data) for piece in pieces]
    assert [piece.offset for piece in pieces] == [0, *ends[:-1]]


@pytest.mark.parametrize("stream", [False, True])
def test_a_slow_taker_holds_the_encoder_back(stream: bool) -> None:
    async def go() -> tuple[int, int]:
        stages, job = FakeStages(), prepared(30.0, stream)
        async with aclosing(events_of(job, stages)) as events:
            async for event in events:
                if isinstance(event, JobBytes):
                    break
            for _ in range(200):  # this piece is not given back for a long while
                await asyncio.sleep(0.002)
            return len(stages.requests), -(-job.started().frames // job.job.settings.chunk_frames)

    asked, chunks = asyncio.run(go())
    assert asked <= chunks // 2, "the stages were asked for far more than anybody took"


def test_leaving_early_cancels_what_is_in_work() -> None:
    async def go() -> FakeStages:
        stages = FakeStages(render_gate=asyncio.Event())
        events = events_of(prepared(4.0), stages)
        assert isinstance(await anext(events), JobStarted)
        waiting = asyncio.create_task(anext(events))
        async with asyncio.timeout(60):
            while not stages.in_flight:  # noqa: ASYNC110  # the stages offer nothing to wait for
                await asyncio.sleep(0.005)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await events.aclose()
        return stages

    stages = asyncio.run(go())
    assert stages.peak >= 1 and stages.in_flight == 0


def test_a_failing_stage_fails_the_job_with_its_own_error() -> None:
    class Broken(FakeStages):
        async def renderer(self, request: Any) -> Any:
            raise StageLostError("renderer", 2)

    with pytest.raises(StageLostError, match="renderer"):
        asyncio.run(collect(events_of(prepared(), Broken())))


@pytest.mark.parametrize(
    ("audio", "limit"), [(b"nonsense", 600.0), (b"", 600.0), (wav(2.0), 1.0)], ids=["nonsense", "empty", "too long"]
)
def test_input_is_refused_before_anything_starts(audio: bytes, limit: float) -> None:
    job = FileJob("j", Payload(audio), None, SessionSettings())
    with pytest.raises(InvalidInputError):
        prepare_job(job, lambda avatar_id: avatar(), SessionHostSettings(limits=LimitSettings(max_audio_s=limit)))


@dataclass
class Host:
    """A handle whose streaming calls follow a script: events, then perhaps an error."""

    scripts: list[list[JobEvent | Exception]]
    cancelled: int = 0
    calls: list[FileJob] = field(default_factory=list)

    def options(self, **options: Any) -> Host:
        assert options == {"method_name": "generate_stream", "stream": True}
        return self

    def remote(self, job: FileJob) -> Any:
        self.calls.append(job)
        host, script = self, self.scripts.pop(0)

        class Stream:
            async def __aiter__(self) -> Any:
                for step in script:
                    if isinstance(step, Exception):
                        raise step
                    yield step

            def cancel(self) -> None:
                host.cancelled += 1
                if script and isinstance(script[0], RayServeException):
                    raise script[0]  # what Ray Serve does with a call that never reached a replica

        return Stream()


STARTED = JobStarted("j", "a", 50, 25, 48, 64, 2.0)
JOB = FileJob("j", Payload(b""), None, SessionSettings())
DONE = JobDone(3, "libx264", {}, {})
UNAVAILABLE = DeploymentUnavailableError(DeploymentID("SessionHost", "liveanchor"))
STREAMED = FileJob("j", Payload(b""), None, SessionSettings(), stream=True)


async def started_job(host: Host, job: FileJob) -> tuple[JobStarted, AsyncGenerator[bytes, None]]:
    started = await start_job(RayHost(host, lambda job: job), job)  # type: ignore[arg-type]
    return started.facts, started.pieces


def job_events(host: Host, job: FileJob) -> AsyncGenerator[JobEvent, None]:
    return RayHost(host, lambda job: job).generate(job)  # type: ignore[arg-type]


async def served(host: Host, job: FileJob) -> tuple[JobStarted, bytes]:
    started, pieces = await started_job(host, job)
    async with aclosing(pieces):
        return started, b"".join([piece async for piece in pieces])


def test_a_host_that_dies_before_any_byte_is_replaced_unnoticed() -> None:
    host = Host(
        [[STARTED, JobProgress(8, 50), ActorDiedError()], [STARTED, JobProgress(50, 50), JobBytes(b"mp4", 0), DONE]]
    )
    assert asyncio.run(served(host, JOB)) == (STARTED, b"mp4")
    assert len(host.calls) == 2 and host.cancelled == 2


def test_a_host_that_dies_before_it_has_accepted_the_job_is_replaced_unnoticed() -> None:
    host = Host([[ActorDiedError()], [STARTED, JobBytes(b"mp4", 0), DONE]])
    assert asyncio.run(served(host, JOB)) == (STARTED, b"mp4")


def test_pieces_of_a_file_whose_host_died_are_forgotten() -> None:
    host = Host(
        [
            [STARTED, JobBytes(b"old body", 2), ActorDiedError()],
            [STARTED, JobBytes(b"body", 2), JobBytes(b"he", 0), JobDone(6, "libx264", {}, {})],
        ]
    )
    assert asyncio.run(served(host, JOB)) == (STARTED, b"hebody")


@pytest.mark.parametrize(
    "events",
    [[STARTED, JobBytes(b"dy", 1), DONE], [STARTED, JobBytes(b"he", 0), DONE], [STARTED, JobBytes(b"mp4", 0)], []],
    ids=["no front", "no end", "not done", "nothing"],
)
def test_a_file_with_a_gap_is_never_served(events: list[JobEvent | Exception]) -> None:
    with pytest.raises(LiveAnchorError):
        asyncio.run(started_job(Host([events]), JOB))


def test_a_streamed_file_whose_host_died_after_the_first_byte_is_an_error() -> None:
    host = Host([[STARTED, JobBytes(b"m", 0), ActorDiedError()], [STARTED, JobBytes(b"mp4", 0), DONE]])
    with pytest.raises(StageLostError, match="session_host"):
        asyncio.run(served(host, STREAMED))
    assert len(host.calls) == 1


def test_a_finished_file_is_never_announced_before_it_is_finished() -> None:
    host = Host([[STARTED, JobProgress(8, 50), StageLostError("renderer", 2)]])
    with pytest.raises(StageLostError, match="renderer"):
        asyncio.run(started_job(host, JOB))
    assert host.cancelled == 1


def test_a_streamed_file_is_announced_at_once_and_cancelled_when_left() -> None:
    async def go(host: Host) -> None:
        started, pieces = await started_job(host, STREAMED)
        assert started == STARTED and await anext(pieces) == b"m"
        await pieces.aclose()

    host = Host([[STARTED, JobBytes(b"m", 0), JobBytes(b"p4", 1)]])
    asyncio.run(go(host))
    assert host.cancelled == 1


def test_full_hosts_are_overload() -> None:
    async def first(host: Host) -> JobEvent:
        async with aclosing(job_events(host, JOB)) as events:
            return await anext(events)

    with pytest.raises(StageOverloadedError) as refused:
        asyncio.run(first(Host([[BackPressureError(9, 8)]])))
    assert refused.value.retryable
    with pytest.raises(NotReadyError):
        asyncio.run(first(Host([[UNAVAILABLE]])))


def test_the_voice_is_normalised_only_when_asked() -> None:
    def voice(normalise: bool) -> float:
        job = FileJob("j", Payload(wav(2.0)), None, SessionSettings(), normalise=normalise)
        decoded = prepare_job(job, lambda avatar_id: avatar(), SessionHostSettings()).audio
        return float(np.abs(decoded.voice.samples).max())

    assert abs(voice(False) - 9000 / 32_768) < 1e-3 and voice(True) < 0.2
