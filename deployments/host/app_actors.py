"""Actors that exist once for the whole application: they know where live sessions are, which tokens they hold, and all video jobs.

They are named actors of their own and not Ray Serve's `deployment_actors`, because Ray Serve keeps one of each per version of a
deployment: after a change of the configuration the new hosts would not know what the old ones hold.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import ray

from deployments.host.command import Answer
from deployments.host.counted_pool import CountedPool
from deployments.host.live_registry import SessionRegistry
from deployments.host.stage_set import StageReport
from deployments.host.token_pool import Lease
from deployments.video_jobs.commands import JobCommand
from deployments.video_jobs.sqlite_store import SqliteJobStore
from engines.weights.home import liveanchor_home

NAMESPACE: Final = "liveanchor"
FORGOTTEN_S: Final = 300.0
"""Seconds without a call from any replica after which an actor ends; replicas call every 2 s."""
ON_THE_HEAD: Final = {"node:__internal_head__": 0.001}
"""What only Ray's head node has: an actor that needs it is always on that machine, and no other node's loss takes it along."""
_LOOK_S: Final = 30.0


class _Forgettable:
    """Ends its own process when the application is gone: nothing else would."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self._called_at = time.monotonic()
        self._over = threading.Event()
        self._self = ray.get_runtime_context().current_actor
        threading.Thread(target=self._watch, name="forgotten", daemon=True).start()

    def _called(self) -> None:
        self._called_at = time.monotonic()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            if time.monotonic() - self._called_at > FORGOTTEN_S:
                ray.kill(self._self)
                return


class _Registry(_Forgettable, SessionRegistry):
    def beat(self, replica: str, sessions: Sequence[str]) -> None:
        self._called()
        super().beat(replica, sessions)


class _Pool(_Forgettable, CountedPool):
    def report(self, report: StageReport) -> None:
        self._called()
        super().report(report)

    def renew(self, leases: Iterable[Lease]) -> list[Lease]:
        self._called()
        return super().renew(leases)


class _VideoJobs(_Forgettable):
    """The one process that has the file of video jobs open; its folder is that of the head node."""

    def __init__(self) -> None:
        super().__init__()
        self._store = SqliteJobStore(liveanchor_home() / "jobs" / "jobs.sqlite3")

    def handle(self, command: JobCommand[Answer]) -> Answer:
        self._called()
        return self._store.handle(command)


def registry_of(app: str) -> Any:
    """Return the application's `SessionRegistry`; the first caller makes it."""
    return _actor_of(_Registry, f"live-registry-{app}", ON_THE_HEAD)


def pool_of(app: str) -> Any:
    """Return the application's `TokenPool`; the first caller makes it."""
    return _actor_of(_Pool, f"token-pool-{app}", ON_THE_HEAD, app)


def video_jobs_of(app: str) -> Any:
    """Return the actor that keeps the application's video jobs; the first caller makes it."""
    return _actor_of(_VideoJobs, f"video-jobs-{app}", ON_THE_HEAD)


def _actor_of(kind: type, name: str, resources: dict[str, float], *args: object) -> Any:
    actor: Any = ray.remote(kind)
    return actor.options(
        name=name,
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
        max_restarts=-1,
        num_cpus=0,
        resources=resources,
    ).remote(*args)
