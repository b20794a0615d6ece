"""The ingress's side of a file job: one streaming call to `SessionHost`, cancelled when the client goes away."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle

from deployments.errors import StageLostError, StageOverloadedError, plain
from deployments.jobs import FileJob, JobBytes, JobEvent, JobStarted
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
    """Start a job and wait until an HTTP status can honestly be given.

    That is: for a streamed file, once its input has been accepted; for a finished file, once it is finished, so that a job which
    fails half-way is never answered 200.

    Returns:
        What the file will be, and the pieces of the file; closing the iterator cancels the job.
    """
    events = job_events(host, job)
    started: JobStarted | None = None
    first = b""
    try:
        async for event in events:
            if isinstance(event, JobStarted):
                started = event
            elif isinstance(event, JobBytes):
                first = event.data
            if started is not None and (job.stream or first):
                return started, _pieces(first, events)
    except BaseException:
        await events.aclose()
        raise
    raise StageLostError("session_host", 1)


async def _pieces(first: bytes, events: AsyncGenerator[JobEvent, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        if first:
            yield first
        async for event in events:
            if isinstance(event, JobBytes):
                yield event.data
