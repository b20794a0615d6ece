"""`liveanchor generate`: a speech file or a text, and a face in, a talking mp4 out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, TaskID

from kernels.errors import InvalidInputError
from pipeline.clock import SUPPORTED_FPS
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.expression.words import ALLOWED
from pipeline.numbers import exact_number
from pipeline.voices.sentences import spoken_text
from serve_app.cli.console import existing_file, progress, stderr, stdout, writable_target
from serve_app.cli.looks import looks_given
from serve_app.cli.native_log import without_litert_greeting
from serve_app.cli.presenter_ids import presenter_id, presenter_named_by, presenters_here
from serve_app.cli.whole_option import whole

if TYPE_CHECKING:
    from pipeline.config import SessionSettings
    from pipeline.media.audio_in import DecodedAudio
    from pipeline.session.local_job import LocalPipeline
    from pipeline.types import Avatar
    from serve_app.config.settings import AppConfig

CHUNK_FRAMES = (4, 8, 16, 25)
CAPTIONS_SUFFIX = ".vtt"
MAX_SEED = 2**63 - 1


def one_of(flag: str, allowed: tuple[float, ...]) -> Callable[[object], float]:
    """What reads such an option, for `typer.Option(parser=...)`: a number as it is spelled in `allowed` (25, not 25.0)."""

    def number(value: object) -> float:
        found = exact_number(value)
        for one in allowed:
            if found == exact_number(one):
                return one
        raise InvalidInputError(flag, str(value)[:80], ", ".join(f"{one:g}" for one in allowed))

    return number


def generate(
    out: Annotated[Path, typer.Option(help="The mp4 to write; it appears when it is complete.")],
    audio: Annotated[
        Path | None, typer.Option(help="Speech: any file with an audio stream (wav, mp3, m4a, ogg, mp4, ...).")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Text to speak, in place of --audio; docs/text.md says which voice speaks it.")
    ] = None,
    avatar: Annotated[
        str,
        typer.Option(help="Id or name of a presenter that `avatar list` shows; the default presenter when not given."),
    ] = "",
    portrait: Annotated[
        Path | None,
        typer.Option(
            help="A portrait photo or short video to animate; kept for a day. `avatar register` keeps one for good."
        ),
    ] = None,
    fps: Annotated[
        float,
        typer.Option(parser=one_of("--fps", SUPPORTED_FPS), help="Frames per second: 25, 50 or 59.94 (60000/1001)."),
    ] = 25,
    chunk_frames: Annotated[
        int,
        typer.Option(
            parser=whole("--chunk-frames", CHUNK_FRAMES),
            help="Frames per render call: 4, 8, 16 or 25; changes no pixel.",
        ),
    ] = 8,
    seed: Annotated[
        int,
        typer.Option(parser=whole("--seed", range(MAX_SEED + 1)), help="Head motion and blinks are a function of it."),
    ] = 0,
    expression: Annotated[str, typer.Option(help=f"What the face expresses: {ALLOWED['expression']}.")] = "",
    strength: Annotated[str, typer.Option(help="How much of it, 0 to 1; 1 when not given.")] = "",
    gaze: Annotated[str, typer.Option(help=f"Where the eyes look: {ALLOWED['gaze']}.")] = "",
    energy: Annotated[str, typer.Option(help=f"How much the head moves: {ALLOWED['energy']}.")] = "",
    expressions: Annotated[
        str,
        typer.Option(
            help="A timeline, JSON or a file with it: [{at_s, expression, strength, ...}]; docs/expression.md."
        ),
    ] = "",
    normalise: Annotated[
        bool,
        typer.Option("--normalise", help="Bring the voice to -23 LUFS (EBU R128); else it stays as loud as it was."),
    ] = False,
    captions: Annotated[
        bool, typer.Option("--captions", help="With --text: write what is said, and when, as WebVTT beside the mp4.")
    ] = False,
    local: Annotated[bool, typer.Option("--local", help="In this one process, without Ray.")] = False,
) -> None:
    """Make a talking mp4 and print its path.

    Without --local the work goes through the Ray graph: the LiveAnchor that
    LIVEANCHOR_URL names, or the one on the Ray cluster of this machine, or one
    that is started for this job and stopped afterwards.

    Example: liveanchor generate --audio speech.wav --out talk.mp4 --portrait me.jpg

    Example: liveanchor generate --text "Good evening." --out news.mp4 --expression serious
    """
    text = speech_given(audio, text)
    looks = looks_given(expression, strength, gaze, energy, expressions)
    if captions and not text:
        raise InvalidInputError("--captions", "no --text", "--captions together with --text")
    if portrait is not None:
        existing_file(portrait, "--portrait")
    writable_target(out, "--out")
    for flag, source in (("--audio", audio), ("--portrait", portrait)):
        if source is not None and out.exists() and out.samefile(source):
            raise InvalidInputError(
                "--out", f"{out}, the file that {flag} names", "another file: inputs are never overwritten"
            )
    if out.suffix.lower() != ".mp4":
        raise InvalidInputError("--out", str(out), "a file name that ends in .mp4")
    if captions:
        writable_target(out.with_suffix(CAPTIONS_SUFFIX), "--captions")
    if avatar and portrait is not None:
        raise InvalidInputError("--avatar", "together with --portrait", "one of them, or neither")
    if avatar:
        from serve_app.cli.remote import presenters_there

        avatar = presenter_id(avatar, "--avatar", presenters_here if local else presenters_there)
    job = Job(audio, text, out, avatar or None, portrait, fps, chunk_frames, seed, normalise, captions, looks)
    with progress() as bar:
        task = bar.add_task("listening", total=None)
        if local:
            generate_here(job, bar, task)
        else:
            generate_on_ray(job, bar, task)
    stdout.print(str(out))


def speech_given(audio: Path | None, text: str | None) -> str:
    """Check that there is exactly one of them, and return the text, empty where there is audio."""
    if (audio is None) == (text is None):
        got = "neither --audio nor --text" if audio is None else "--text together with --audio"
        raise InvalidInputError("--audio" if audio is None else "--text", got, "one of --audio and --text")
    if audio is not None:
        existing_file(audio, "--audio")
    if text is None:
        return ""
    from pipeline.expression.marks import take_marks

    spoken_text("--text", take_marks(text).text)
    return spoken_text("--text", text)


@dataclass(frozen=True)
class Job:
    """What the flags asked for, checked: `audio`, or else `text`."""

    audio: Path | None
    text: str
    out: Path
    avatar_id: str | None
    portrait: Path | None
    fps: float
    chunk_frames: int
    seed: int
    normalise: bool
    captions: bool
    looks: Looks = NEUTRAL_FACE

    def settings(self, defaults: SessionSettings) -> SessionSettings:
        """As session settings, everything else as the configuration says."""
        return defaults.model_copy(update={"fps": self.fps, "chunk_frames": self.chunk_frames})

    def write_captions(self, webvtt: str) -> None:
        """Write captions beside the mp4, where they are wanted."""
        if self.captions:
            self.out.with_suffix(CAPTIONS_SUFFIX).write_text(webvtt, encoding="utf-8")


def generate_here(job: Job, bar: Progress, task: TaskID) -> None:
    """In this process."""
    from pipeline.session.local_job import LocalPipeline
    from serve_app.config.settings import load_config

    config = load_config()
    decoded, looks = heard_here(job, config)
    bar.update(task, description="loading the presenter")
    pipeline = LocalPipeline(
        encoder=config.encoder, rife=config.rife, family=config.models.family, weights=config.models.weights_dir
    )
    if job.portrait is None:
        with presenter_named_by("--avatar"):
            presenter = pipeline.avatar(job.avatar_id)
    else:
        presenter = temporary_presenter(pipeline, job.portrait, config.limits.temporary_avatar_ttl_s)
    bar.update(task, description="speaking")
    pipeline.generate_file(
        decoded,
        job.out,
        presenter,
        job.settings(config.session),
        seed=job.seed,
        looks=looks,
        on_progress=lambda done, total: bar.update(task, completed=done, total=total),
    )


def heard_here(job: Job, config: AppConfig) -> tuple[DecodedAudio, Looks]:
    """The speech of a job in this process, its file or its text, spoken, and what the face expresses; captions are written."""
    from pipeline.media.audio_in import decode_audio

    if job.audio is not None:
        return decode_audio(job.audio, normalise=job.normalise), job.looks
    from pipeline.expression.marks import take_marks, timed
    from pipeline.voices.captions import cues_of, webvtt
    from pipeline.voices.choice import find_voice
    from pipeline.voices.whole_text import SpokenText, speak_whole

    marked = take_marks(job.text)

    async def spoken() -> SpokenText:
        voice = find_voice(config.voices)
        try:
            return await speak_whole(voice, marked.text, config.limits.max_audio_s, "--text")
        finally:
            await voice.close()

    made = asyncio.run(spoken())
    job.write_captions(webvtt(cues_of(made.said)))
    return decode_audio(made.wav, normalise=job.normalise), job.looks.along_with(timed(marked.marks, made.said))


def temporary_presenter(pipeline: LocalPipeline, portrait: Path, ttl_s: float) -> Avatar:
    """A presenter for this job, as a service makes one; temporary ones not used for `ttl_s` seconds go first (0: none)."""
    if ttl_s:
        pipeline.store.expire(ttl_s)
    with without_litert_greeting():
        avatar = pipeline.register(portrait, temporary=True)
    if pipeline.store.used_at(avatar.avatar_id) is not None:
        kept = f"until it is unused for {ttl_s / 3600:g} h" if ttl_s else "until it is deleted"
        stderr.print(
            f"presenter {avatar.avatar_id}: usable as --avatar {kept}; `liveanchor avatar register {portrait}` keeps it"
        )
    return avatar


def generate_on_ray(job: Job, bar: Progress, task: TaskID) -> None:
    """Through a running LiveAnchor, or one that is started for this job."""
    from pipeline.config import SessionSettings
    from pipeline.media.audio_in import decode_audio
    from serve_app.cli.remote import Speech, generate_remote

    def tell(text: str) -> None:
        bar.update(task, description=text)
        if not stderr.is_interactive:  # no bar: a cluster that takes its time to start would look like nothing at all
            stderr.print(text)

    if job.audio is not None:
        decode_audio(job.audio)  # a bad file is refused here, before a cluster is started for it
    generate_remote(
        Speech(job.audio, job.text, job.write_captions if job.captions else None),
        job.out,
        avatar_id=job.avatar_id,
        portrait=job.portrait,
        settings=job.settings(SessionSettings()),
        seed=job.seed,
        normalise=job.normalise,
        looks=job.looks,
        on_progress=lambda done, total: bar.update(task, completed=done, total=total or None),
        on_status=tell,
    )
