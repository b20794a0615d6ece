"""`liveanchor jobs`: the videos that a service makes in the background."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import typer

from kernels.errors import InvalidInputError
from serve_app.cli.command_group import CommandGroup
from serve_app.cli.console import show_rows, stderr, stdout
from serve_app.cli.whole_option import whole

app = typer.Typer(
    cls=CommandGroup, help="List, show, cancel and repeat videos that a service makes.", no_args_is_help=True
)
ROUTE = "/v1/videos"
MOST = 100
VideoId = Annotated[str, typer.Argument(metavar="ID", help="Id as `jobs list` prints it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_jobs(
    limit: Annotated[int, typer.Option(parser=whole("--limit", range(1, MOST + 1)), help="How many.")] = 20,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest first, not the newest.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the videos of the service that LIVEANCHOR_URL names, or that runs here.

    Example: liveanchor jobs list --limit 50
    """
    found = _asked("GET", "", {"limit": str(limit), "order": "asc" if oldest else "desc"})
    if as_json:
        stdout.print_json(json.dumps(found))
        return
    if not found["data"]:
        stderr.print("no videos yet: POST /v1/videos makes one")
        return
    rows = [(one["id"], one["state"], _how_far(one), _time(one["created_at"]), _why(one)) for one in found["data"]]
    show_rows(("id", "state", "progress", "created", "error"), rows, whole=("id",))


@app.command("show")
def show(video_id: VideoId, as_json: AsJson = False) -> None:
    """Show one video.

    Example: liveanchor jobs show video_019ad0a3c2e0b1f2c3d4e5f60718293a
    """
    video = _asked("GET", _checked(video_id))
    if as_json:
        stdout.print_json(json.dumps(video))
        return
    shown = {
        "id": video["id"],
        "state": video["state"],
        "progress": _how_far(video),
        "created": _time(video["created_at"]),
        "started": _time(video["started_at"]),
        "ended": _time(video["completed_at"]),
        "kept until": _time(video["expires_at"]),
        "begun": f"{video['attempt']} times" if video["attempt"] != 1 else "once",
        "presenter": video["avatar_id"] or "default",
        "seconds": video["seconds"] or "",
        "error": _why(video),
        **{f"metadata {name}": text for name, text in video["metadata"].items()},
    }
    show_rows(("what", "value"), [(name, str(value)) for name, value in shown.items() if value], whole=("what",))


@app.command("cancel")
def cancel(video_id: VideoId) -> None:
    """Stop a video that waits or is being made.

    Example: liveanchor jobs cancel video_019ad0a3c2e0b1f2c3d4e5f60718293a
    """
    stdout.print(_asked("POST", f"{_checked(video_id)}/cancel")["state"])


@app.command("retry")
def retry(video_id: VideoId) -> None:
    """Make a video after all that failed or was cancelled.

    Example: liveanchor jobs retry video_019ad0a3c2e0b1f2c3d4e5f60718293a
    """
    stdout.print(_asked("POST", f"{_checked(video_id)}/retry")["state"])


def _checked(video_id: str) -> str:
    """The id, which is a part of an address.

    Raises:
        InvalidInputError: It cannot be one.
    """
    if not video_id.replace("_", "").replace("-", "").isalnum() or not video_id.isascii():
        raise InvalidInputError("ID", video_id[:60] or "nothing", "an id as `liveanchor jobs list` prints it")
    return video_id


def _asked(method: str, path: str, params: dict[str, str] | None = None) -> Any:
    from serve_app.cli.remote import ask, running_service

    return ask(running_service(), method, f"{ROUTE}/{path}" if path else ROUTE, params)


def _how_far(video: Any) -> str:
    return f"place {video['place']}" if video["place"] else f"{video['progress']} %"


def _why(video: Any) -> str:
    return str(video["error"]["message"]) if video["error"] else ""


def _time(seconds: int | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
