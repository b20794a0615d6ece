"""`liveanchor keys`: make, list, rotate and revoke the API keys that the service asks callers for."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from serve_app.access.keys import SCOPES, ApiKey, checked_scopes
from serve_app.cli.command_group import CommandGroup
from serve_app.cli.console import show_rows, stderr, stdout
from serve_app.cli.whole_option import whole

if TYPE_CHECKING:
    from serve_app.access.key_file import KeyFile

app = typer.Typer(cls=CommandGroup, help="Make, list, rotate and revoke API keys.", no_args_is_help=True)
DAY_S = 86_400.0
HOUR_S = 3600.0
_ID = typer.Argument(metavar="KEY_ID", help="Id as `keys list` prints it.")


def key_file() -> KeyFile:
    """The file of keys that the configuration names."""
    from serve_app.access.key_file import KeyFile
    from serve_app.config.settings import load_config

    return KeyFile(load_config().keys.path())


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="A name for people: who uses the key.")],
    scopes: Annotated[
        str, typer.Option(help=f"What it allows, apart by commas: {', '.join(SCOPES)}; admin allows everything.")
    ] = "generate,live,avatars",
    days: Annotated[
        int | None,
        typer.Option(parser=whole("--days", range(1, 3651)), help="Days until it expires; never when left out."),
    ] = None,
) -> None:
    """Make a key and print it. It is shown this once: only its hash is kept.

    Example: liveanchor keys create "newsroom" --scopes generate,live --days 90
    """
    wanted = checked_scopes((one.strip() for one in scopes.split(",") if one.strip()), "--scopes")
    key, text = key_file().create(name, wanted, None if days is None else days * DAY_S)
    stdout.print(text)
    stderr.print(
        f"{key.key_id}: {', '.join(key.scopes)}; {_until(key, time.time())}. Keep the key now: it is not shown again."
    )


@app.command("list")
def list_keys(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List all keys without their text, revoked and expired ones too.

    Example: liveanchor keys list
    """
    found, now = key_file().list(), time.time()
    if as_json:
        rows = [
            key.model_dump(exclude={"secrets"}) | {"expires_at": key.expires_at, "valid": key.valid(now)}
            for key in found
        ]
        stdout.print_json(json.dumps(rows))
        return
    if not found:
        stderr.print("no keys yet: liveanchor keys create NAME")
        return
    cells = [(key.key_id, key.name, ", ".join(key.scopes), _day(key.created_at), _until(key, now)) for key in found]
    show_rows(("id", "name", "scopes", "made", "valid"), cells, whole=("id",))


@app.command("rotate")
def rotate(
    key_id: Annotated[str, _ID],
    hours: Annotated[
        int,
        typer.Option(parser=whole("--hours", range(0, 24 * 90 + 1)), help="Hours for which the old text works too."),
    ] = 24,
) -> None:
    """Give a key a new text and print it; what was made with the key stays its own.

    Example: liveanchor keys rotate k0123456789ab --hours 48
    """
    stdout.print(key_file().rotate(key_id, hours * HOUR_S))
    stderr.print("Keep the key now: it is not shown again.")


@app.command("revoke")
def revoke(key_id: Annotated[str, _ID]) -> None:
    """Take a key back for good. Services notice within a second; session tokens of the key end with it.

    Example: liveanchor keys revoke k0123456789ab
    """
    key_file().revoke(key_id)


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment).astimezone():%Y-%m-%d}"


def _until(key: ApiKey, now: float) -> str:
    """How long a key is valid."""
    if key.revoked:
        return "revoked"
    if key.expires_at is None:
        return "always"
    return f"{'until' if key.valid(now) else 'expired'} {_day(key.expires_at)}"
