"""The command line: `liveanchor`. One file per command group."""

from serve_app.cli.app import main

__all__ = ["main"]
