"""`liveanchor jobs`: the videos that a service makes in the background."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serve_app.cli.command_group import CommandGroup
from serve_app.cli.console import show_rows, stderr, stdout
from serve_app.cli.whole_option import whole

if TYPE_CHECKING:
    from liveanchor.client import Client

app = typer.Typer(
    cls=CommandGroup,
    help="Look after videos that a service makes, and after messages about them.",
    no_args_is_help=True,
)
SECRET = "/v1/webhooks/secret"  # noqa: S105  # an address
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
    with _service() as client:
        found = client.videos.list(limit, oldest_first=oldest).raw
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
    with _service() as client:
        video = client.videos.get(video_id).raw
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
    with _service() as client:
        stdout.print(client.videos.cancel(video_id).state)


@app.command("retry")
def retry(video_id: VideoId) -> None:
    """Make a video after all that failed or was cancelled.

    Example: liveanchor jobs retry video_019ad0a3c2e0b1f2c3d4e5f60718293a
    """
    with _service() as client:
        stdout.print(client.videos.retry(video_id).state)


@app.command("webhooks")
def webhooks(
    video_id: VideoId,
    replay: Annotated[bool, typer.Option("--replay", help="Send the last message again first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the messages about one video, with every attempt to deliver them.

    Example: liveanchor jobs webhooks video_019ad0a3c2e0b1f2c3d4e5f60718293a --replay
    """
    from liveanchor.client.call import in_path
    from liveanchor.client.calls import VIDEOS

    with _service() as client:
        path = f"{VIDEOS}/{in_path(video_id, 'video_id')}/webhooks"
        if replay:
            _sent(client, "POST", f"{path}/replay")
        found = _sent(client, "GET", path)
    if as_json:
        stdout.print_json(json.dumps(found))
        return
    if not found["data"]:
        stderr.print("no messages yet: one is written when a video with webhook_url ends")
        return
    rows = [row for one in found["data"] for row in _attempts(one)]
    show_rows(("id", "type", "state", "at", "status", "note"), rows, whole=("id",))


@app.command("secret")
def secret(
    rotate: Annotated[bool, typer.Option("--rotate", help="Sign with a new secret from now on.")] = False,
    hours: Annotated[
        int, typer.Option(parser=whole("--hours", range(721)), help="Sign with the older one, too, for so long.")
    ] = 24,
    as_json: AsJson = False,
) -> None:
    """Print the secrets that messages to `webhook_url` are signed with, newest first.

    Example: liveanchor jobs secret --rotate --hours 48
    """
    with _service() as client:
        found = (
            _sent(client, "POST", f"{SECRET}/rotate", overlap_s=str(hours * 3600))
            if rotate
            else _sent(client, "GET", SECRET)
        )
    if as_json:
        stdout.print_json(json.dumps(found))
        return
    rows = [(one["secret"], _time(one["created_at"]), _time(one["expires_at"])) for one in found["data"]]
    show_rows(("secret", "created", "used until"), rows, whole=("secret",))


def _attempts(message: Any) -> list[tuple[str, ...]]:
    """A row for each attempt, and one for what is still to come."""
    head = (message["id"], message["type"])
    rows = [(*head, "tried", _time(one["at"]), str(one["status"] or ""), one["note"]) for one in message["attempts"]]
    return [*rows, (*head, message["state"], _time(message["next_attempt_at"]), "", "")]


def _sent(client: Client, method: str, path: str, **params: str) -> Any:
    """What a route answers, as it comes."""
    from liveanchor.client.call import Call

    return client.send(Call(method, path, lambda answer: answer.json(), params=params))


@contextmanager
def _service() -> Iterator[Client]:
    """A client of the service that is named or runs here."""
    from serve_app.cli.remote import client_of, running_service

    with client_of(running_service(), {"video_id": "ID"}) as client:
        yield client


def _how_far(video: Any) -> str:
    return f"place {video['place']}" if video["place"] else f"{video['progress']} %"


def _why(video: Any) -> str:
    return str(video["error"]["message"]) if video["error"] else ""


def _time(seconds: int | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
