"""The ingress's side of a file job: one streaming call to `SessionHost`, cancelled when the client goes away."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from deployments.errors import StageLostError, StageOverloadedError, plain
from deployments.jobs import FileJob, JobBytes, JobDone, JobEvent, JobProgress, JobStarted
from kernels.errors import LiveAnchorError


async def job_events(host: DeploymentHandle[Any], job: FileJob) -> AsyncGenerator[JobEvent, None]:
    """All events of a job, in order.

    A job whose host replica dies before any byte of the file was handed on is started once more on another replica; it is a
    function of its inputs, so nobody can tell. Leaving the iterator early cancels the job.

    Raises:
        StageLostError: The host replica died, twice or after bytes were handed on.
        StageOverloadedError: All hosts are full.
        LiveAnchorError: What the job answered.
    """
    method: Any = host.options(method_name="generate_stream", stream=True)
    for attempt in (1, 2):
        handed_on = False
        events = method.remote(job)
        try:
            async for event in events:
                handed_on = handed_on or isinstance(event, JobBytes)
                if attempt == 1 or not isinstance(event, JobStarted):
                    yield event
            return
        except LiveAnchorError as error:
            raise plain(error) from None
        except RayActorError as error:
            if attempt == 2 or handed_on:
                raise StageLostError("session_host", attempt) from error
        except BackPressureError as error:
            raise StageOverloadedError("session_host", int(error.args[0])) from error
        finally:
            events.cancel()


async def started_job(host: DeploymentHandle[Any], job: FileJob) -> tuple[JobStarted, AsyncGenerator[bytes, None]]:
    """Start a job and wait until it has accepted its input, so that a bad one still gets its own HTTP status.

    Returns:
        What the file will be, and the pieces of the file; closing the iterator cancels the job.
    """
    events = job_events(host, job)
    try:
        first = await anext(events)
    except BaseException:
        await events.aclose()
        raise
    if not isinstance(first, JobStarted):
        raise StageLostError("session_host", 1)
    return first, _pieces(events)


async def _pieces(events: AsyncGenerator[JobEvent, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events) as source:
        async for event in source:
            match event:
                case JobBytes(data):
                    yield data
                case JobProgress() | JobDone() | JobStarted():
                    pass
