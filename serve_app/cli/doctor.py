"""`liveanchor doctor`: what this machine can run."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from serve_app.cli.console import show_rows, stdout

_STYLE = {"ok": "green", "optional": "yellow", "missing": "bold red"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Say what this machine can run and what to install for more; exit code 1 when something needed is missing.

    Example: liveanchor doctor
    """
    from serve_app.cli.diagnosis import diagnose

    findings = diagnose()
    if as_json:
        stdout.print_json(json.dumps([finding.to_json() for finding in findings]))
    else:
        rows = [(one.name, Text(one.level, _STYLE[one.level]), one.found, one.advice) for one in findings]
        show_rows(("what", "state", "found", "to do"), rows)
    if any(finding.level == "missing" for finding in findings):
        raise typer.Exit(1)
