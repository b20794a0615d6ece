"""Puts together what makes video jobs on one host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ray import serve
from ray.serve import metrics
from ray.serve.handle import DeploymentHandle

from deployments.config import SessionHostSettings
from deployments.graph.handle_calls import translated
from deployments.graph.stage_worker import replica_id
from deployments.host.avatar_commands import RegisterAvatar
from deployments.host.file_jobs import FileJobs
from deployments.host.hosted_avatars import HostedAvatars
from deployments.host.job_runner import JobRunner
from deployments.video_jobs.commands import QueueFacts
from deployments.video_jobs.ray_jobs import RayJobs
from deployments.video_jobs.uploads import JobUploads
from deployments.video_jobs.worker import JobTools, JobWorker
from pipeline.avatars.quota import AvatarQuota
from pipeline.media.results.store import ResultsStore

HOST: Final = "session_host"


def runner_of(
    settings: SessionHostSettings, jobs: FileJobs, avatars: HostedAvatars, has_room: Callable[[], bool]
) -> JobRunner:
    """Make the runner of the replica that this is called in.

    Args:
        settings: Settings of the session host.
        jobs: Makes files.
        avatars: Makes presenters of portraits.
        has_room: Says whether live sessions here leave room for other work.
    """
    place = serve.get_replica_context()
    hosts: Any = DeploymentHandle(place.deployment, place.app_name)
    limits, stores = settings.limits, settings.stores
    quota = AvatarQuota(limits.max_avatars, limits.max_avatars_bytes)

    async def register(data: bytes, owner: str) -> str:
        command = RegisterAvatar(data, "", False, temporary=True, quota=quota, owner=owner)
        return (await avatars.handle(command)).avatar_id

    async def call(method: str) -> Any:
        """Not cancelled with its caller: what another host makes goes on when this one ends."""
        with translated(HOST):
            return await hosts.options(method_name=method).remote()

    uploads = JobUploads(stores.uploads)
    results = ResultsStore(stores.results, stores.results_max_bytes, stores.results_ttl_s)
    store = RayJobs(place.app_name, stores.jobs, lambda: call("wake_jobs"))
    tools = JobTools(jobs.run, register, uploads, results, settings.session)
    worker = JobWorker(store, tools, settings.jobs, replica_id())
    gauges = _QueueGauges()
    return JobRunner(store, worker, uploads, settings.jobs, has_room, lambda: call("work_on_jobs"), note=gauges.note)


class _QueueGauges:
    """The queue in Ray's exporter. Every host tells the same, so a board shows the largest."""

    def __init__(self) -> None:
        self._waiting = metrics.Gauge("liveanchor_videos_waiting", description="Videos that wait to be made.")
        self._age_s = metrics.Gauge("liveanchor_videos_waiting_s", description="Age of the oldest of them in seconds.")
        self._running = metrics.Gauge("liveanchor_videos_running", description="Videos that are being made.")
        self._messages = metrics.Gauge("liveanchor_messages_waiting", description="Messages that wait to be delivered.")

    def note(self, facts: QueueFacts) -> None:
        self._waiting.set(facts.waiting)
        self._age_s.set(facts.waiting_s)
        self._running.set(facts.running)
        self._messages.set(facts.messages)
