"""`liveanchor doctor`: what this machine can run."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from serve_app.cli.console import stdout

_STYLE = {"ok": "green", "optional": "yellow", "missing": "bold red"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Say what this machine can run and what to install for more; exit code 1 when something needed is missing.

    Example: liveanchor doctor
    """
    from serve_app.diagnosis import diagnose

    findings = diagnose()
    if as_json:
        stdout.print_json(json.dumps([finding.to_json() for finding in findings]))
    else:
        table = Table("what", "state", "found", "to do")
        for finding in findings:
            table.add_row(finding.name, Text(finding.level, _STYLE[finding.level]), finding.found, finding.advice)
        stdout.print(table)
    if any(finding.level == "missing" for finding in findings):
        raise typer.Exit(1)
