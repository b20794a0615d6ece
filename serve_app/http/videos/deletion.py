"""A video and all that came with it or was made of it, removed."""

from __future__ import annotations

import asyncio

from deployments.video_jobs.commands import DeleteJob, GetJob
from deployments.video_jobs.job import VideoJob
from serve_app.http.services import Services


async def delete_video(services: Services, video_id: str, owner: str | None) -> VideoJob:
    """Forget a video, its file, its upload and its messages, whatever its state; what it was is answered.

    Args:
        services: Parts of the application.
        video_id: Its id.
        owner: Whose it must be; None for anybody's.

    Raises:
        VideoNotFoundError: The owner has no such video.
        JobStoreError: The store of videos or that of uploads does not answer.
        StoreUnreachableError: The store of results does not answer; the video stays, and can be deleted again.
    """
    found = await services.jobs.handle(GetJob(video_id, owner))
    if found.result is not None:  # first: where it cannot be removed now, the video stays and can be deleted again
        await asyncio.to_thread(services.results.discard, found.result.result_id)
    job = await services.jobs.handle(DeleteJob(video_id, owner))
    if job.result is not None and found.result is None:  # it was completed meanwhile
        await asyncio.to_thread(services.results.discard, job.result.result_id)
    await asyncio.to_thread(services.uploads.remove, job.job_id)
    return job
