"""Deployment `Ingress`."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.handle import DeploymentHandle

from deployments.graph.handle_calls import answer_of
from deployments.graph.start_up import StartUp
from deployments.logs import configure_replica_logs
from deployments.video_jobs.ray_jobs import RayJobs
from serve_app.http.api import create_api
from serve_app.http.listening import listens_elsewhere
from serve_app.http.live.ray_host import RayLiveHost
from serve_app.http.ray_host import READY_S, STAGE, RayHost
from serve_app.http.ray_mirror import RayMirror
from serve_app.http.settings import ApiSettings


class _Ingress:
    """Adds to the HTTP application: a place in the graph. Holds no state; any replica serves any request.

    Args:
        host: `SessionHost`.
        settings: What callers may ask for.
    """

    def __init__(self, host: DeploymentHandle[Any], settings: ApiSettings) -> None:
        configure_replica_logs()
        start = StartUp("ingress")
        self._host = host
        self._api: FastAPI | None = None
        here = {
            "proxy_echoes_request_id": True,
            "listens_elsewhere": settings.keys.required == "auto" and listens_elsewhere(),
        }
        self._settings = settings.model_copy(update=here)
        start.ready()

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Ray Serve in each replica, once the handle is there."""
        jobs = RayJobs(serve.get_replica_context().app_name, self._settings.stores.jobs, self._wake)
        host = RayHost(self._host, avatars_uri=self._settings.stores.avatars)
        self._api = create_api(host, RayLiveHost(self._host), self._settings, RayMirror(), jobs=jobs)
        return self._api

    def begin_drain(self) -> None:
        """Take nothing new that ends with this process."""
        if self._api is not None:
            self._api.state.draining.begin()

    def in_work(self) -> int:
        """Files whose answers are not sent yet, and uploads that come in."""
        if self._api is None:
            return 0
        services = self._api.state.services
        return int(services.gate.active + services.intake.coming)

    async def _wake(self) -> None:
        """Tell a host that a video waits to be made."""
        method: Any = self._host.options(method_name="wake_jobs")
        await answer_of(STAGE, method.remote(), READY_S)


IngressReplica: type[Any] = serve.ingress(None)(_Ingress)
