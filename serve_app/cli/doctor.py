"""`liveanchor doctor`: what this machine can run, or how a running service looks from outside."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer
from rich.text import Text

from serve_app.cli.console import show_rows, stdout
from serve_app.cli.finding import Finding

_STYLE = {"ok": "green", "optional": "yellow", "missing": "bold red"}


def doctor(
    url: Annotated[
        str, typer.Option(help="Look at the service there instead, from outside; LIVEANCHOR_API_KEY is its key.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what this machine can run and what to install for more; exit code 1 when something needed is missing.

    With --url, say what works and what does not in a running service: health, keys, clocks, TLS, a short file, stores, STUN and
    TURN, a live session. It makes one short file and holds one session for some seconds.

    Example: liveanchor doctor --url https://faces.example.org
    """
    findings = _of_service(url) if url else _of_machine()
    if as_json:
        stdout.print_json(json.dumps([finding.to_json() for finding in findings]))
    else:
        rows = [(one.name, Text(one.level, _STYLE[one.level]), one.found, one.advice) for one in findings]
        show_rows(("what", "state", "found", "to do"), rows)
    if any(finding.level == "missing" for finding in findings):
        raise typer.Exit(1)


def _of_machine() -> list[Finding]:
    from serve_app.cli.diagnosis import diagnose

    return diagnose()


def _of_service(url: str) -> list[Finding]:
    from serve_app.cli.remote import KEY_ENV, client_of
    from serve_app.cli.service.check import check_service

    with client_of(url, {"url": "--url"}) as client:
        return check_service(client, os.environ.get(KEY_ENV, ""))
