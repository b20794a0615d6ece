"""`liveanchor forget`: remove all that belongs to a key or shows a presenter from a service, with a report."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from kernels.errors import InvalidInputError
from serve_app.cli.console import show_rows, stderr, stdout

LISTS = (
    ("live session", "live_sessions"),
    ("video", "videos"),
    ("upload", "uploads"),
    ("result", "results"),
    ("presenter", "presenters"),
    ("stays for others", "kept_presenters"),
    ("copies on", "cleared"),
)
COUNTS = (("messages", "messages"), ("statements of consent", "consents"), ("signing secrets", "secrets"))


def forget(
    key: Annotated[str, typer.Option(help="Id or name of an API key: all that was made with it goes.")] = "",
    avatar: Annotated[
        str, typer.Option(help="Id of a presenter: it goes, and all that shows it, whosever it is.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and touch nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove all that a key made, or all that shows a presenter, and report it.

    From the service of LIVEANCHOR_URL, or the one that runs here; it needs a key
    with the scope admin where keys are needed. Live sessions and videos in work
    end; presenters, videos, results, uploads, messages, statements of consent
    and copies on all nodes go. Exit code 1 where something is left: it is named,
    and running the command again is harmless. Revoke a key before its things
    are removed, so that it makes no new ones.

    Example: liveanchor forget --key newsroom --dry-run
    """
    from liveanchor.client.call import Call
    from serve_app.cli.remote import client_of, running_service

    if bool(key) is bool(avatar):
        raise InvalidInputError("--key", "both" if key else "nothing", "one of --key and --avatar")
    body = {"dry_run": dry_run} | ({"key": key} if key else {"avatar_id": avatar})
    with client_of(running_service(), {"key": "--key", "avatar_id": "--avatar"}) as client:
        report: dict[str, Any] = client.send(Call("POST", "/v1/forget", _report, json=body, patient=True))
    if as_json:
        stdout.print_json(json.dumps(report))
    else:
        _show(report)
    if not report["complete"]:
        stderr.print(f"{len(report['left'])} could not be removed; run this again")
        raise typer.Exit(1)


def _report(answer: Any) -> dict[str, Any]:
    found = dict(answer.json())
    if not isinstance(found["complete"], bool):
        raise ValueError("another answer")  # noqa: TRY004  # the client tells a strange answer by this
    return found


def _show(report: dict[str, Any]) -> None:
    rows = [(name, str(one)) for name, field in LISTS for one in report[field]]
    rows += [(name, str(report[field])) for name, field in COUNTS if report[field]]
    rows += [(f"LEFT {one['kind']}", f"{one['name']}: {one['reason']}") for one in report["left"]]
    if not rows:
        stderr.print("nothing is there")
        return
    if report["dry_run"]:
        stderr.print("nothing was touched; this would go:")
    show_rows(("what", "which"), rows, whole=("which",))
