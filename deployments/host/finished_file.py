"""The events of a file job, taken in until its file is whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from deployments.graph.errors import StageLostError
from deployments.host.jobs import JobBytes, JobDone, JobEvent, JobProgress, JobStarted
from pipeline.media.file_buffer import FileBuffer


@dataclass(frozen=True)
class FinishedFile:
    """Holds a whole file and what it is; whoever has it clears the buffer."""

    facts: JobStarted
    file: FileBuffer


async def finished_file(
    events: AsyncGenerator[JobEvent, None], on_progress: Callable[[JobProgress], None] = lambda progress: None
) -> FinishedFile:
    """Take in a job to its end. A second `JobStarted` voids what came before it; leaving early cancels the job.

    Args:
        events: Events of one job.
        on_progress: Told how far it is.

    Raises:
        StageLostError: The events ended before the file did.
        LiveAnchorError: The job failed with this error.
    """
    started: JobStarted | None = None
    done: JobDone | None = None
    file = FileBuffer()
    try:
        async with aclosing(events):
            async for event in events:
                match event:
                    case JobStarted():
                        started = event
                        file.clear()
                    case JobProgress():
                        on_progress(event)
                    case JobBytes():
                        file.write(event.offset, event.data)
                    case JobDone():
                        done = event
        if started is None or done is None:
            raise StageLostError("session_host", 1)
        file.check_whole(done.size_bytes)
    except BaseException:
        file.clear()
        raise
    return FinishedFile(started, file)
