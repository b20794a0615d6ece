"""Whether other machines reach the service: what Ray Serve listens on."""

from __future__ import annotations

import structlog
from ray.exceptions import RayError
from ray.serve.context import _get_global_client  # no public call tells a replica what the proxies listen on
from ray.serve.exceptions import RayServeException

from kernels.errors import first_line
from serve_app.access.loopback import is_loopback


def listens_elsewhere() -> bool:
    """Whether Ray Serve listens on more than loopback. Where it does not say, it counts as listening everywhere."""
    try:
        client = _get_global_client()
        host = str(client.http_config.host or "") if client else ""
    except (RayError, RayServeException, AttributeError) as error:
        structlog.get_logger("liveanchor.http").warning("listening_unknown", reason=first_line(error, named=True))
        return True
    return not is_loopback(host)
