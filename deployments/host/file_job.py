"""A file job as a stream of events, over any `Stages`. Adds events and progress to `pipeline.session.generate`; no Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace

from deployments.config import SessionHostSettings
from deployments.graph.payload import Payload
from deployments.host.jobs import PIECE_BYTES, FileJob, JobBytes, JobDone, JobEvent, JobProgress, JobStarted
from pipeline.config import EncoderSettings
from pipeline.expression.marks import take_marks, timed
from pipeline.families import find_family
from pipeline.media.audio_in import DecodedAudio, decode_audio
from pipeline.media.encoder_select import default_selector
from pipeline.media.fragmented_mp4 import FragmentedMp4Writer
from pipeline.media.mp4 import MemoryMp4Writer
from pipeline.media.mp4_pieces import PiecewiseMp4Writer
from pipeline.media.muxing import Mp4Writer
from pipeline.media.signing import Sign
from pipeline.session.generate import describe, video_format, write_clip
from pipeline.stage_meter import StageMeter
from pipeline.types import Avatar
from pipeline.voices.captions import Cue, cues_of
from pipeline.voices.voice import Voice
from pipeline.voices.whole_text import speak_whole

PIECES_AHEAD = 4
"""Pieces of a file that may wait for the reader of the events; when more would wait, encoding waits instead."""


@dataclass(frozen=True)
class PreparedJob:
    """Holds a job whose input has been accepted: its speech, decoded, its avatar, and captions where a text is spoken."""

    job: FileJob
    audio: DecodedAudio
    avatar: Avatar
    cues: tuple[Cue, ...] = ()

    def started(self) -> JobStarted:
        """The first event."""
        result = describe(self.audio, self.avatar, self.job.settings)
        return JobStarted(
            job_id=self.job.job_id,
            avatar_id=self.avatar.avatar_id,
            frames=result.frames,
            fps=result.fps,
            width=result.width,
            height=result.height,
            duration_s=result.duration_s,
            cues=self.cues,
        )


async def with_speech(job: FileJob, voice: Voice, settings: SessionHostSettings) -> tuple[FileJob, tuple[Cue, ...]]:
    """Let the voice speak a job's prompt: the job with that as its audio, and the captions; a job with audio comes back as it is.

    Marks in the prompt become looks of the job.

    Raises:
        TextTooLongError: The text takes longer than speech may last.
        VoiceError: There is no voice, or it failed.
    """
    if not job.prompt:
        return job, ()
    marked = take_marks(job.prompt)
    spoken = await speak_whole(voice, marked.text, settings.limits.max_audio_s)
    looks = job.looks.along_with(timed(marked.marks, spoken.said))
    return replace(job, audio=Payload(spoken.wav), looks=looks), cues_of(spoken.said)


def prepare_job(
    job: FileJob,
    presenter: Callable[[str | None], Avatar],
    settings: SessionHostSettings,
    cues: tuple[Cue, ...] = (),
) -> PreparedJob:
    """Decode the speech, let go of the upload, and find the presenter. The call takes long: make it in a thread.

    Raises:
        InvalidInputError: The speech cannot be used, the avatar id is not known, or its face cannot show the looks.
    """
    limits = settings.limits.of_audio()
    avatar = presenter(job.avatar_id)
    find_family(avatar.family).check_looks(job.looks)
    decoded = decode_audio(job.audio.view, limits, normalise=job.normalise)
    job.audio.release()
    return PreparedJob(job, decoded, avatar, cues)


async def run_job(
    prepared: PreparedJob,
    stages: StageMeter,
    encoder: EncoderSettings,
    retries: Mapping[str, int],
    sign: Sign | None = None,
) -> AsyncGenerator[JobEvent, None]:
    """Run a job.

    Args:
        prepared: What `prepare_job` answered.
        stages: Stage calls of this job.
        encoder: How the file is encoded.
        retries: Calls per stage that were made again, read at the end.
        sign: Puts a manifest into a finished file, which is then held whole until its end; streams have none. None: no manifest.

    Yields:
        `JobStarted`, then `JobProgress` and `JobBytes`, at the end `JobDone`. Leaving early cancels everything.
    """
    job, size_bytes = prepared.job, 0
    yield prepared.started()
    picture, voice = video_format(prepared.avatar, job.settings), prepared.audio.voice
    frames = prepared.started().frames
    writer: Mp4Writer
    if job.stream:
        writer, sign = FragmentedMp4Writer(picture, voice, encoder), None
    elif sign is not None:
        writer = MemoryMp4Writer(picture, voice, encoder, frames=frames)
    else:
        writer = PiecewiseMp4Writer(picture, voice, encoder, frames)
    events: asyncio.Queue[JobEvent | None] = asyncio.Queue()
    room = asyncio.Semaphore(PIECES_AHEAD)

    async def send(data: bytes, offset: int) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            await room.acquire()
            events.put_nowait(JobBytes(data[start : start + PIECE_BYTES], offset + start))

    async def work() -> None:
        clip = write_clip(
            prepared.audio,
            prepared.avatar,
            stages,
            job.settings,
            writer,
            seed=job.seed,
            looks=job.looks,
            on_progress=lambda done, total: events.put_nowait(JobProgress(done, total)),
        )
        offset = writer.front_bytes if isinstance(writer, PiecewiseMp4Writer) else 0
        async with aclosing(clip):
            async for data in clip:
                if sign is not None and data:  # the whole file: this writer hands out nothing before
                    data = await asyncio.to_thread(sign, data)
                await send(data, offset)
                offset += len(data)
        if isinstance(writer, PiecewiseMp4Writer):
            await send(writer.front, 0)

    task = asyncio.create_task(work(), name=f"job-{job.job_id}")
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
            if isinstance(event, JobBytes):
                size_bytes += len(event.data)
                room.release()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    yield JobDone(size_bytes, default_selector().codec_name(encoder), dict(stages.calls), dict(retries))
