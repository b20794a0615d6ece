"""What Ray Serve's report says about our application: pure functions of what its REST interface answers."""

from __future__ import annotations

from typing import Any

from serve_app.config.declare import APP_NAME

LONGEST_REASON = 3000
LONGEST_LINE = 450
NO_GPU = (
    "the configuration reserves shares of a GPU, and this cluster has none "
    "(`ray start --num-gpus=1` claims one that need not exist: with device: auto the CPU does the work):"
)


def application(found: dict[str, Any]) -> dict[str, Any]:
    """Our application's part of the report; empty where it is not deployed."""
    ours: dict[str, Any] = found.get("applications", {}).get(APP_NAME, {})
    return ours


def status(found: dict[str, Any]) -> str:
    """Ray Serve's word for its state, `NOT_STARTED` where it is not deployed."""
    return str(application(found).get("status", "NOT_STARTED"))


def service_url(found: dict[str, Any]) -> str | None:
    """The address of a running LiveAnchor on this cluster, None where there is none."""
    if status(found) != "RUNNING":
        return None
    options = found.get("http_options") or {}
    host = options.get("host") or "127.0.0.1"
    return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{options.get('port') or 8000}"  # noqa: S104  # compared, not bound


def is_deployed(found: dict[str, Any]) -> bool:
    """Whether the application is there: running, starting or being changed."""
    return status(found) in ("RUNNING", "DEPLOYING", "UNHEALTHY")


def reason(found: dict[str, Any], gpus: float = 1.0) -> str:
    """Why it does not run: the message of the application, then those of deployments that are not healthy. May be empty.

    Args:
        found: The report.
        gpus: GPUs of the cluster; where there is none and a replica waits for one, that is said first.
    """
    ours = application(found)
    broken = [
        f"{name}: {one['message']}"
        for name, one in ours.get("deployments", {}).items()
        if one.get("status") != "HEALTHY" and one.get("message")
    ]
    said = [str(ours.get("message") or ""), *broken]
    waits_for_gpu = gpus == 0 and any("Resources required" in text and '"GPU"' in text for text in broken)
    text = "\n".join(text for text in said if text)[-LONGEST_REASON:]
    return f"{NO_GPU}\n{text}" if waits_for_gpu else text


def progress(found: dict[str, Any], gpus: float = 1.0) -> str:
    """How far a start is, in one line, with the first thing that it waits for where Ray Serve names one."""
    deployments = application(found).get("deployments", {})
    healthy = sum(1 for one in deployments.values() if one.get("status") == "HEALTHY")
    waits = " ".join(reason(found, gpus).split())[:LONGEST_LINE]
    return f"starting, {healthy} of {len(deployments) or '?'} parts are up{'; ' if waits else ''}{waits}"
