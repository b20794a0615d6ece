"""Assembles the commands and turns errors into exit codes: 0 done, 2 bad input or usage, 1 our failure."""

from __future__ import annotations

import logging
import signal
import sys
from typing import Annotated

import structlog
import typer

from kernels.errors import InvalidInputError, LiveAnchorError
from serve_app.cli import avatar, bench, compare, doctor, engine, forget, generate, jobs, keys, serve, weights
from serve_app.cli.command_group import CommandGroup
from serve_app.cli.console import report_error, stdout
from serve_app.version import own_version

EXIT_FAILURE = 1
EXIT_BAD_INPUT = 2

app = typer.Typer(
    name="liveanchor",
    cls=CommandGroup,
    help="Speech in, a speaking presenter out: as an mp4 or as live video.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("generate")(generate.generate)
app.command("serve")(serve.serve)
app.command("compare")(compare.compare)
app.command("doctor")(doctor.doctor)
app.command("forget")(forget.forget)
app.command("bench", context_settings={"allow_extra_args": True})(bench.bench)
app.add_typer(avatar.app, name="avatar")
app.add_typer(jobs.app, name="jobs")
app.add_typer(weights.app, name="weights")
app.add_typer(engine.app, name="engine")
app.add_typer(keys.app, name="keys")


def _print_version(wanted: bool) -> None:
    if wanted:
        stdout.print(own_version())
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Speech in, a speaking presenter out: as an mp4 or as live video."""


def configure_logging() -> None:
    """Structured logs on stderr, warnings and above: a person at a terminal watches progress bars, not logs."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )


def main() -> None:
    """Run the command line and exit with its code."""
    configure_logging()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: nothing half-written stays behind
    try:
        app()
    except InvalidInputError as error:
        report_error(str(error))
        sys.exit(EXIT_BAD_INPUT)
    except LiveAnchorError as error:
        report_error(str(error))
        sys.exit(EXIT_FAILURE)
    except OSError as error:  # a full disk, a folder that went away: the machine's fault, said in one line
        report_error(f"{error.filename or 'i/o'}: {error.strerror or error}")
        sys.exit(EXIT_FAILURE)
