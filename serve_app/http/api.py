"""The HTTP application, as a plain FastAPI object over one `Host`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from deployments.video_jobs.store import Jobs
from deployments.video_jobs.uploads import JobUploads
from pipeline.fetch.fetcher import Fetcher, Resolve, system_addresses
from pipeline.media.results.store import ResultsStore
from serve_app.http.access.access import Access
from serve_app.http.access.guard import AccessGuard
from serve_app.http.access.quotas import Quotas
from serve_app.http.access.rates import Rates
from serve_app.http.access.routes import access_routes
from serve_app.http.avatars.routes import avatar_routes
from serve_app.http.capacity import JobGate, UploadBudget, UploadGate
from serve_app.http.context import REQUEST_ID, ContextMiddleware
from serve_app.http.draining import Draining
from serve_app.http.files.generate import generate_routes
from serve_app.http.files.results import result_routes
from serve_app.http.forget.routes import forget_routes
from serve_app.http.host import Host
from serve_app.http.live.events import live_event_routes
from serve_app.http.live.host import LiveHost
from serve_app.http.live.livekit import livekit_routes
from serve_app.http.live.publish import publish_routes
from serve_app.http.live.routes import live_routes
from serve_app.http.live.speech import live_speech_routes
from serve_app.http.live.whep import whep_routes
from serve_app.http.metrics import HttpMetrics, Mirror
from serve_app.http.openapi import install_openapi
from serve_app.http.operations import operations_routes
from serve_app.http.problems.handlers import install_error_handlers
from serve_app.http.services import Services
from serve_app.http.settings import ApiSettings
from serve_app.http.videos.content import content_routes
from serve_app.http.videos.events import video_event_routes
from serve_app.http.videos.routes import video_routes
from serve_app.http.web import install_web
from serve_app.http.webhooks.routes import webhook_routes
from serve_app.http.webhooks.sender import WebhookSender
from serve_app.version import own_version

_EXPOSED: Final = [
    REQUEST_ID, "Location", "Content-Disposition", "Content-Length", "Content-Range", "Accept-Ranges", "ETag",
    "Link", "RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate",
    "X-Frames", "X-Fps", "X-Duration-S", "X-Width", "X-Height", "X-Avatar-Id",
]  # fmt: skip


def create_api(
    host: Host,
    live: LiveHost,
    settings: ApiSettings,
    mirror: Mirror | None = None,
    wall_clock: Callable[[], float] = time.time,
    resolve: Resolve = system_addresses,
    *,
    jobs: Jobs,
) -> FastAPI:
    """Build the application.

    Args:
        host: Does the work of jobs and presenters.
        live: Holds live sessions.
        settings: What callers may ask for.
        mirror: Another exporter of metrics.
        wall_clock: Seconds since the epoch, for the expiry of results and keys.
        resolve: Looks up the names of hosts that files are fetched from.
        jobs: Keeps videos that are made in the background.
    """
    metrics = HttpMetrics(mirror)
    limits = settings.limits
    draining = Draining()
    access = Access(settings.keys, settings.listens_elsewhere, wall_clock)
    services = Services(
        host=host,
        settings=settings,
        results=ResultsStore(
            settings.stores.results, settings.stores.results_max_bytes, settings.stores.results_ttl_s, wall_clock
        ),
        jobs=jobs,
        uploads=JobUploads(settings.stores.uploads, wall_clock),
        gate=JobGate(limits.max_jobs),
        intake=UploadGate(limits.max_uploads, limits.max_uploads_per_client, limits.retry_after_s),
        budget=UploadBudget(limits.max_buffered_bytes),
        fetcher=Fetcher(settings.fetch, resolve),
        quotas=Quotas(settings.quotas),
        metrics=metrics,
    )
    api = FastAPI(
        title="LiveAnchor",
        version=own_version(),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_sending(WebhookSender(jobs, services.fetcher, wall_clock)),
    )
    for router in (
        generate_routes(services),
        result_routes(services, wall_clock),
        video_routes(services),
        content_routes(services, wall_clock),
        video_event_routes(services),
        webhook_routes(services),
        avatar_routes(services),
        live_routes(services, live, wall_clock),
        live_speech_routes(services, live),
        live_event_routes(services, live),
        livekit_routes(services, live),
        whep_routes(services, live, wall_clock),
        publish_routes(services, live),
        operations_routes(services),
        forget_routes(services, live),
        access_routes(services, access),
    ):
        api.include_router(router)
    install_web(api)
    install_openapi(api, access.needed)
    install_error_handlers(api, settings, metrics)
    api.add_middleware(
        AccessGuard,
        access=access,
        rates=Rates(settings.quotas),
        draining=draining,
        metrics=metrics,
        retry_after_s=limits.retry_after_s,
    )
    if settings.http.cors_origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.http.cors_origins),
            allow_methods=["GET", "HEAD", "POST", "PATCH", "DELETE"],
            allow_headers=[
                REQUEST_ID,
                "Authorization",
                "Content-Type",
                "Idempotency-Key",
                "If-Match",
                "Last-Event-ID",
                "Range",
            ],
            expose_headers=_EXPOSED,
            max_age=3600,
        )
    api.add_middleware(
        ContextMiddleware,
        metrics=metrics,
        echo_request_id=not settings.proxy_echoes_request_id,
        cors=bool(settings.http.cors_origins),
    )
    api.state.services = services
    api.state.draining = draining
    return api


def _sending(sender: WebhookSender) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Have messages sent for as long as the application runs."""

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncGenerator[None, None]:
        sending = asyncio.create_task(sender.run(), name="webhooks")
        try:
            yield
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    return lifespan
