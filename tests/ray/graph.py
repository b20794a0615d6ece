"""The running graph as the tests see it."""

from __future__ import annotations

import copy
import io
import os
import signal
import threading
import time
import wave
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import ray
from ray import serve
from ray.exceptions import RayActorError, RayError
from ray.serve.exceptions import DeploymentUnavailableError
from ray.util.state.exception import RayStateApiException

from deployments.graph.calls import StageStats
from deployments.host.jobs import HostStats
from kernels.errors import LiveAnchorError
from serve_app.cluster.errors import ServiceFailedError
from serve_app.cluster.own import Cluster, details, submit
from serve_app.config.declare import APP_NAME

NOT_YET = (
    httpx.HTTPError,
    OSError,
    RayActorError,
    DeploymentUnavailableError,
    RayStateApiException,
    ServiceFailedError,
)
STAGES = ("AudioFeatures", "MotionDiffusion", "Renderer")
JOB_S = 700.0


def speech_wav(seconds: float, seed: int = 7) -> bytes:
    """Something that counts as speech: a buzz in syllables, 16 kHz mono, 16 bit."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * 16_000)) / 16_000
    pitch = 120 + 20 * np.sin(2 * np.pi * 0.7 * t)
    buzz = sum(np.sin(2 * np.pi * k * np.cumsum(pitch) / 16_000) / k for k in range(1, 9))
    syllables = np.clip(np.sin(2 * np.pi * 3.5 * t) + 0.3, 0, 1)
    pcm = 0.25 * buzz * syllables + 0.002 * rng.standard_normal(len(t))
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes())
    return buffer.getvalue()


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float = 300.0, every_s: float = 0.25) -> Any:
    """Poll until `condition` gives something true; errors of a part that is being replaced count as not yet.

    Replacing a replica takes seconds on a quiet machine and can take a minute on a busy one.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = condition()
            if last:
                return last
        except NOT_YET as error:
            last = error
        pause.wait(every_s)
    raise AssertionError(f"{what}: not within {timeout_s} s, last: {last!r}")


@dataclass
class Graph:
    """A deployed application.

    Attributes:
        cluster: Where it runs.
        document: What was submitted.
        url: Where HTTP answers.
    """

    cluster: Cluster
    document: dict[str, Any]
    url: str

    def post(self, wav: bytes, job_id: str = "", timeout_s: float = JOB_S, **fields: object) -> httpx.Response:
        headers = {"X-Request-Id": job_id} if job_id else {}
        data = {key: str(value).lower() for key, value in fields.items()}
        return httpx.post(
            f"{self.url}/generate", files={"audio": ("a.wav", wav)}, data=data, headers=headers, timeout=timeout_s
        )

    def in_background(self, wav: bytes, job_id: str, **fields: object) -> Future[httpx.Response]:
        return ThreadPoolExecutor(1).submit(self.post, wav, job_id, **fields)

    def frames_done(self, job_id: str) -> int:
        answer = httpx.get(f"{self.url}/jobs/{job_id}", timeout=30).raise_for_status()
        return int(answer.json()["frames_done"])

    def stage_stats(self, deployment: str) -> list[StageStats]:
        found: list[StageStats] = (
            serve.get_deployment_handle(deployment, APP_NAME).broadcast("stats").results(timeout_s=JOB_S)
        )
        return found

    def host_stats(self) -> list[HostStats]:
        found: list[HostStats] = (
            serve.get_deployment_handle("SessionHost", APP_NAME).broadcast("stats").results(timeout_s=JOB_S)
        )
        return found

    def come_to_rest(self) -> None:
        """Wait until the stages are asked for nothing more and make nothing more, then see that it stays so."""
        settled = wait_for("stages to come to rest", lambda: (first := self._made()) == self._made_later() and first)
        assert self._made_later() == settled

    def _made(self) -> list[tuple[int, int]]:
        return [(one.calls, one.frames) for stage in STAGES for one in self.stage_stats(stage)]

    def _made_later(self) -> list[tuple[int, int]]:
        threading.Event().wait(1.0)
        return self._made()

    def replaced(self, deployment: str, killed: list[int]) -> None:
        """Wait until one new replica is all that there is."""
        wait_for(
            f"one new {deployment}",
            lambda: (
                len(self.replicas(deployment)) == 1 and (pids := set(self.pids(deployment))) and not pids & set(killed)
            ),
        )

    def pids(self, deployment: str) -> list[int]:
        stats = self.host_stats() if deployment == "SessionHost" else self.stage_stats(deployment)
        return [one.pid for one in stats]

    def kill(self, deployment: str) -> list[int]:
        """SIGKILL every replica of a deployment; gives their process ids."""
        pids = self.pids(deployment)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    def replicas(self, deployment: str) -> list[dict[str, Any]]:
        return [one for one in self.all_replicas(deployment) if one["state"] == "RUNNING"]

    def all_replicas(self, deployment: str) -> list[dict[str, Any]]:
        """Those that start and wait for room too."""
        found: list[dict[str, Any]] = details(self.cluster)["applications"][APP_NAME]["deployments"][deployment][
            "replicas"
        ]
        return found

    def describe(self) -> str:
        """Applications, deployments, replicas and free resources, a line each."""
        try:
            lines, found = [f"free: {ray.available_resources()}"], details(self.cluster)
        except (OSError, RuntimeError, RayError, LiveAnchorError) as error:
            return f"the cluster does not answer: {error!r}"
        for app, application in found.get("applications", {}).items():
            lines.append(f"{app}: {application['status']} {application['message']}")
            for name, one in application["deployments"].items():
                states = Counter(replica["state"] for replica in one["replicas"])
                lines.append(f"  {name}: {one['status']} {dict(states)} {one['message']}")
        return "\n".join(lines)

    def submit(self, document: dict[str, Any]) -> None:
        """Hand a document to Ray, whose dashboard may be busy."""
        wait_for("Ray to take the document", lambda: submit(self.cluster, document) is None)

    def resubmit(self, deployment: str, **changes: object) -> None:
        """Change options of one deployment, as an operator would with a changed YAML."""
        document = copy.deepcopy(self.document)
        [one] = [one for one in document["applications"][0]["deployments"] if one["name"] == deployment]
        for key, value in changes.items():
            one[key] = {**one[key], **value} if isinstance(value, dict) else value
        self.submit(document)

    def change_args(self, args: dict[str, Any]) -> None:
        """Change the application's own settings for good; Ray Serve replaces every replica."""
        application = self.document["applications"][0]
        for group, values in args.items():
            application["args"][group] = {**application["args"].get(group, {}), **values}
        self.submit(self.document)
