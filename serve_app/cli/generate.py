"""`liveanchor generate`: a speech file and a face in, a talking mp4 out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernels.errors import InvalidInputError
from pipeline.clock import SUPPORTED_FPS
from serve_app.cli.console import existing_file, progress, stdout, writable_target

CHUNK_FRAMES = (4, 8, 16, 25)
MAX_SEED = 2**63 - 1


def one_of(value: int, allowed: tuple[int, ...], flag: str) -> int:
    """The value, or InvalidInputError that lists what is allowed."""
    if value not in allowed:
        raise InvalidInputError(flag, str(value), ", ".join(map(str, allowed)))
    return value


def generate(
    audio: Annotated[Path, typer.Option(help="Speech: any file with an audio stream (wav, mp3, m4a, ogg, mp4, ...).")],
    out: Annotated[Path, typer.Option(help="The mp4 to write; it appears when it is complete.")],
    avatar: Annotated[
        str, typer.Option(help="Id of a registered presenter; the default presenter when not given.")
    ] = "",
    portrait: Annotated[Path | None, typer.Option(help="A portrait photo or short video to animate instead.")] = None,
    fps: Annotated[int, typer.Option(help="Frames per second: 25 or 50.")] = 25,
    chunk_frames: Annotated[int, typer.Option(help="Frames per render call: 4, 8, 16 or 25; changes no pixel.")] = 8,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Head motion and blinks are a function of it.")] = 0,
    local: Annotated[bool, typer.Option("--local", help="In this one process, without Ray.")] = False,
) -> None:
    """Make a talking mp4 and print its path.

    Example: liveanchor generate --local --audio speech.wav --out talk.mp4 --portrait me.jpg
    """
    existing_file(audio, "--audio")
    writable_target(out, "--out")
    one_of(fps, SUPPORTED_FPS, "--fps")
    one_of(chunk_frames, CHUNK_FRAMES, "--chunk-frames")
    if avatar and portrait is not None:
        raise InvalidInputError("--avatar", "together with --portrait", "one of them, or neither")
    if not local:
        raise InvalidInputError("--local", "not given", "--local: this release has no Ray graph yet")
    from pipeline.audio_in import decode_audio
    from pipeline.config import SessionSettings
    from pipeline.local import LocalPipeline

    with progress() as bar:
        task = bar.add_task("listening", total=None)
        decoded = decode_audio(audio)
        bar.update(task, description="loading the presenter")
        pipeline = LocalPipeline()
        if portrait is not None:
            bar.update(task, description="registering the portrait")
            presenter = pipeline.register(existing_file(portrait, "--portrait"))
        else:
            presenter = pipeline.avatar(avatar or None)
        bar.update(task, description="speaking")
        pipeline.generate_file(
            decoded,
            out,
            presenter,
            SessionSettings.model_validate({"fps": fps, "chunk_frames": chunk_frames}),
            seed=seed,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    stdout.print(str(out), markup=False)
