"""How replicas log: one JSON object per line on stderr, collected by Ray. No local variables, so no audio and no pictures."""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog
from ray import serve
from ray.serve.exceptions import RayServeException
from structlog.typing import EventDict, Processor, WrappedLogger

PROCESSORS: Final[tuple[Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
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
