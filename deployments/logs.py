"""How replicas log: one JSON object per line on stderr, collected by Ray. No local variables, so no audio and no pictures."""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog
from ray import serve
from ray.serve.context import (
    _serve_request_context,  # a private name; tests/unit/deployments/test_replica_logs.py would miss it
)
from ray.serve.exceptions import RayServeException
from structlog.typing import EventDict, Processor, WrappedLogger


def name_request(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Add the id of the request that is being served, as Ray Serve hands it on from the first header to the last stage.

    Work that belongs to no request, or to several as a batch does, has none; a line that names one itself keeps it.
    """
    context = _serve_request_context.get()
    if "request_id" in event or context is None or not context.request_id:
        return event
    return {**event, "request_id": context.request_id}


PROCESSORS: Final[tuple[Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
    name_request,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
)


def configure_replica_logs() -> None:
    """Set up structlog for the replica that this is; outside a replica, logging is its maker's business."""
    try:
        deployment = serve.get_replica_context().deployment
    except RayServeException:
        return

    def name_deployment(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        return {**event, "deployment": deployment}

    structlog.configure(
        processors=[*PROCESSORS, name_deployment, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
