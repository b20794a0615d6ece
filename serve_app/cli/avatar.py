"""`liveanchor avatar`: register, list, show and remove presenters."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from kernels.errors import InvalidInputError
from pipeline.families import DEFAULT_FAMILY, FAMILIES
from serve_app.cli.command_group import CommandGroup
from serve_app.cli.console import existing_file, show_rows, stderr, stdout, writable_target
from serve_app.cli.native_log import without_litert_greeting
from serve_app.cli.presenter_ids import presenter_id, presenter_named_by, presenters_here

app = typer.Typer(cls=CommandGroup, help="Register, list, show and remove presenters.", no_args_is_help=True)
PICTURES = (".jpg", ".jpeg", ".png")
JPEG_QUALITY = 95


@app.command("register")
def register(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A portrait (JPEG, PNG, WebP, HEIC, AVIF) or a short video.")
    ],
    name: Annotated[str, typer.Option(help="A name for people, else the file's; the id comes from the content.")] = "",
    family: Annotated[str, typer.Option(help=f"Whose renderer draws it: {', '.join(FAMILIES)}.")] = DEFAULT_FAMILY,
    consent: Annotated[
        str, typer.Option(help="Who agreed that this face is animated, and for what; kept with the presenter.")
    ] = "",
) -> None:
    """Register a portrait or a short video and print the presenter's id.

    Example: liveanchor avatar register portrait.jpg --name "Evening news"
    """
    from deployments.host.avatar_consents import CONSENT, MAX_STATEMENT_BYTES, AvatarConsents
    from pipeline.session.local_job import register_source
    from serve_app.config.settings import load_config

    consent = consent.strip()
    if not consent and load_config().consent.needed:
        raise InvalidInputError("--consent", "nothing", CONSENT)
    if len(consent.encode("utf-8", "replace")) > MAX_STATEMENT_BYTES:
        raise InvalidInputError("--consent", "a longer text", f"{CONSENT}, in {MAX_STATEMENT_BYTES} bytes")
    with without_litert_greeting():
        avatar = register_source(existing_file(source, "FILE"), name, family=family)
    if consent:
        AvatarConsents("").keep(avatar.avatar_id, "", consent)
    stdout.print(avatar.avatar_id)


@app.command("list")
def list_avatars(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the presenters that this machine knows; the ones made of a job's portrait are kept for a while only.

    Example: liveanchor avatar list
    """
    from pipeline.session.local_job import list_presenters

    found = list_presenters()
    if as_json:
        stdout.print_json(json.dumps([dataclasses.asdict(entry) for entry in found]))
        return
    if not found:
        stderr.print("no presenters yet: liveanchor avatar register; without --avatar the default presenter speaks")
        return
    rows = [
        (entry.avatar_id, entry.name, entry.family, f"{entry.width}x{entry.height}", _kept(entry.used_at))
        for entry in found
    ]
    show_rows(("id", "name", "family", "canvas", "kept"), rows, whole=("id",))


@app.command("picture")
def picture(
    out: Annotated[Path, typer.Option(help="The picture to write: a .jpg or .png file.")],
    avatar_id: Annotated[str, typer.Argument(help="Id or name as `avatar list` prints it; else the default.")] = "",
) -> None:
    """Write the picture that a presenter is made of, at full size, and print its path.

    Example: liveanchor avatar picture --out me.jpg

    Example: liveanchor avatar picture Ingrid --out ingrid.png
    """
    from PIL import Image

    from pipeline.gallery.pictures import with_alpha
    from pipeline.session.local_job import LocalPipeline

    if writable_target(out, "--out").suffix.lower() not in PICTURES:
        raise InvalidInputError("--out", str(out), f"a file name that ends in {', '.join(PICTURES)}")
    if avatar_id:
        avatar_id = presenter_id(avatar_id, "AVATAR_ID", presenters_here)
    with presenter_named_by("AVATAR_ID"):
        avatar = LocalPipeline().avatar(avatar_id)
    pixels = with_alpha(avatar.name, avatar.canvas_rgb) if out.suffix.lower() == ".png" else avatar.canvas_rgb
    Image.fromarray(pixels).save(out, quality=JPEG_QUALITY)
    stdout.print(str(out))


@app.command("delete")
def delete(avatar_id: Annotated[str, typer.Argument(help="Id or name as `avatar list` prints it.")]) -> None:
    """Remove a presenter from this machine, with what was agreed to about it.

    Example: liveanchor avatar delete 0123456789abcdef0123456789abcdef
    """
    from deployments.host.avatar_consents import AvatarConsents
    from deployments.host.avatar_owners import AvatarOwners
    from pipeline.session.local_job import avatar_store

    avatar_id = presenter_id(avatar_id, "AVATAR_ID", presenters_here)
    with presenter_named_by("AVATAR_ID"):
        avatar_store().delete(avatar_id)
    AvatarOwners("").forget(avatar_id)
    AvatarConsents("").drop(avatar_id, None)


def _kept(used_at: float | None) -> str:
    """How long a presenter stays."""
    if used_at is None:
        return "always"
    return f"temporary, last used {datetime.fromtimestamp(used_at).astimezone():%Y-%m-%d %H:%M}"
