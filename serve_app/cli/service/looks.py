"""Health, version, TLS, clock, keys: what a service says about itself over HTTP."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from liveanchor.client import ClientError, RefusedError
from liveanchor.client.call import Call
from serve_app.cli.finding import Finding
from serve_app.cli.remote import KEY_ENV
from serve_app.cli.service.visit import UNKNOWN, Visit, trouble
from serve_app.version import own_version

SKEW_S: Final = 60.0
"""Clocks of nodes must agree to within this; tokens and signed links count in it, too."""
NOTED_SKEW_S: Final = 5.0
CERTIFICATE_DAYS: Final = 14
RAY_PORTS: Final = {6379: "Ray's head", 8265: "Ray's dashboard", 10001: "Ray's client server"}
CONNECT_S: Final = 2.0


def address(visit: Visit) -> list[Finding]:
    """Whether a LiveAnchor answers at all, and whether it is of this command's version."""
    try:
        there, here = visit.stranger.version(), own_version()
    except ClientError as error:
        return [trouble("address", error)]
    found = Finding("address", "ok", f"{visit.url} answers, LiveAnchor {there}")
    if there == here:
        return [found]
    return [
        found, Finding("version", "optional", f"{there} there, {here} here", "install the same version on both")
    ]  # fmt: skip


def clock(visit: Visit) -> list[Finding]:
    """How far the clocks are apart, and how long the certificate lasts: both stand in one answer."""
    before = visit.wall_clock()
    try:
        date, certificate = visit.stranger.send(Call("GET", "/healthz", _date_and_certificate))
    except ClientError as error:
        return [trouble("clock", error)]
    after = visit.wall_clock()
    skew = max(before - 1 - date, date - after, 0.0)  # the header has whole seconds
    name, found = "clock", f"{skew:.0f} s apart from this machine's"
    if skew > SKEW_S:
        said = Finding(name, "missing", found, "let both follow a time server (chrony, systemd-timesyncd)")
    elif skew > NOTED_SKEW_S:
        said = Finding(name, "optional", found, f"more than {SKEW_S:.0f} s break tokens and expiry: use a time server")
    else:
        said = Finding(name, "ok", "agrees with this machine's")
    return [said, _tls(visit, certificate)]


def keys(visit: Visit) -> Finding:
    """Whether strangers are kept out, and whether our key is let in."""
    try:
        visit.stranger.videos.list(1)
    except RefusedError as error:
        if error.status != UNKNOWN:
            return trouble("keys", error)
    except ClientError as error:
        return trouble("keys", error)
    else:
        if visit.is_here:
            return Finding("keys", "ok", "none needed from this machine")
        advice = "keys.required: auto or always (docs/security.md), or access control in front"
        return Finding("keys", "missing", "whoever reaches the port may do everything", advice)
    if not visit.api_key:
        return Finding("keys", "missing", "it needs a key", f"set {KEY_ENV}: liveanchor keys create NAME")
    try:
        scopes = visit.client.send(Call("POST", "/auth/token", lambda answer: list(answer.json()["scopes"])))
    except RefusedError as error:
        if error.status == UNKNOWN:
            advice = "liveanchor keys list, on the service's machine; every node must see the same keys.json"
            return Finding("keys", "missing", f"strangers are refused, and so is the key of {KEY_ENV}", advice)
        return trouble("keys", error)
    except ClientError as error:
        return trouble("keys", error)
    return Finding("keys", "ok", f"strangers are refused; ours is accepted for {', '.join(scopes)}")


def ready(visit: Visit) -> Finding:
    """Whether the whole graph answers."""
    try:
        visit.stranger.ready()
    except ClientError as error:
        return Finding("graph", "missing", error.message, "serve status --address DASHBOARD says what it waits for")
    return Finding("graph", "ok", "every part answers")


def ray_ports(visit: Visit, reachable: Callable[[str, int], bool] | None = None) -> Finding:
    """Whether Ray's own ports, which take code from anybody, are closed to us."""
    if visit.is_here:
        return Finding("ray's ports", "ok", "not looked at from the same machine")
    reach = reachable or _reachable
    open_ports = [f"{name} ({port})" for port, name in RAY_PORTS.items() if reach(visit.host, port)]
    if not open_ports:
        return Finding("ray's ports", "ok", "closed to this machine")
    return Finding(
        "ray's ports",
        "missing",
        f"open: {', '.join(open_ports)}",
        "they run anybody's code: put them behind a firewall",
    )


def _date_and_certificate(answer: httpx.Response) -> tuple[float, dict[str, Any]]:
    stream = answer.extensions.get("network_stream")
    found = stream.get_extra_info("ssl_object") if stream is not None else None
    return parsedate_to_datetime(answer.headers["date"]).timestamp(), (found.getpeercert() or {}) if found else {}


def _tls(visit: Visit, certificate: dict[str, Any]) -> Finding:
    if not visit.url.startswith("https:"):
        if visit.is_here:
            return Finding("tls", "ok", "none needed on one machine")
        return Finding(
            "tls", "missing", "keys, voices and pictures travel in the clear", "put a proxy with TLS in front"
        )
    if "notAfter" not in certificate:
        return Finding("tls", "ok", "the certificate is accepted")
    days = (ssl.cert_time_to_seconds(certificate["notAfter"]) - visit.wall_clock()) / 86400
    if days < CERTIFICATE_DAYS:
        return Finding("tls", "optional", f"the certificate ends in {days:.0f} days", "renew it")
    return Finding("tls", "ok", f"the certificate is accepted, for {days:.0f} days more")


def _reachable(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), CONNECT_S):
            return True
    except OSError:
        return False
