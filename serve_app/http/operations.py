"""Routes for those who run the service: health, version, metrics, what each kind of problem means."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from deployments.video_jobs.commands import ReadQueue
from deployments.video_jobs.errors import JobStoreError
from serve_app.http.metrics import exposition
from serve_app.http.openapi import problems
from serve_app.http.problems.kinds import KINDS, TYPE_PREFIX, ProblemKind
from serve_app.http.services import Services
from serve_app.version import own_version

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


class StatusAnswer(BaseModel):
    """`ok` or `ready`."""

    status: str = Field(examples=["ok"])


class VersionAnswer(BaseModel):
    """What runs here."""

    name: str = Field(examples=["liveanchor"])
    version: str = Field(examples=["0.1.0"])


class KindAnswer(BaseModel):
    """A kind of problem."""

    type: str = Field(examples=["/problems/audio_unreadable"])
    status: int = Field(examples=[422])
    title: str = Field(examples=["The speech cannot be read"])
    detail: str = Field(
        description="What it means and what to do.", examples=["The bytes are no audio or video file..."]
    )


class KindList(BaseModel):
    """All kinds of problems."""

    problems: list[KindAnswer]


def _kind(code: str, kind: ProblemKind) -> KindAnswer:
    return KindAnswer(type=TYPE_PREFIX + code, status=kind.status, title=kind.title, detail=kind.meaning)


def operations_routes(services: Services) -> APIRouter:
    """The routes for operators."""
    router = APIRouter(tags=["operations"])

    @router.head("/healthz", include_in_schema=False)  # load balancers like to probe without a body
    @router.get("/healthz", summary="This process answers")
    async def healthz() -> StatusAnswer:
        """For liveness probes; asks nobody else."""
        return StatusAnswer(status="ok")

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", summary="The whole graph answers", responses=problems(503))
    async def readyz() -> StatusAnswer:
        """For readiness probes and load balancers; 503 while a part is missing."""
        await services.host.ready()
        return StatusAnswer(status="ready")

    @router.head("/version", include_in_schema=False)
    @router.get("/version", summary="What runs here")
    async def version() -> VersionAnswer:
        """Name and version."""
        return VersionAnswer(name="liveanchor", version=own_version())

    @router.head("/metrics", include_in_schema=False)
    @router.get(
        "/metrics",
        response_class=Response,
        summary="Prometheus metrics",
        responses={200: {"description": "Prometheus text.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Counts of this ingress replica, of every replica of the graph, and of videos that wait.

        Ray's own exporter has them too, but for those of videos, and histograms.
        """
        hosts = await services.host.host_stats()
        stages = await services.host.stage_stats()
        try:
            queue = await services.jobs.handle(ReadQueue())
        except JobStoreError:
            queue = None
        return Response(exposition(services.metrics, hosts, stages, queue), media_type=PROMETHEUS)

    @router.head("/problems", include_in_schema=False)
    @router.get("/problems", summary="What all kinds of problems mean")
    async def all_problems() -> KindList:
        """Every `type` that an error can have, what it means and what to do."""
        return KindList(problems=[_kind(code, kind) for code, kind in KINDS.items()])

    @router.head("/problems/{code}", include_in_schema=False)
    @router.get("/problems/{code}", summary="What a kind of problem means", responses=problems("not_found"))
    async def problem(code: str) -> KindAnswer:
        """The address that `type` of an error names: what it means and what to do."""
        kind = KINDS.get(code)
        if kind is None:
            raise HTTPException(404)
        return _kind(code, kind)

    return router
