"""`docs/problems.md`: `python -m serve_app.http.problems.page > docs/problems.md`; a test compares."""

from __future__ import annotations

import sys
from typing import Final

from serve_app.http.problems.kinds import KINDS

_HEAD: Final = """# Kinds of problems

What the `code` of an error means and what to do: the last part of its `type`, which a running service explains at that address, and
all of them at `/problems`. Made by `python -m serve_app.http.problems.page`; edit `serve_app/http/problems/kinds.py`.

| code | status | what it says | what it means and what to do |
|---|---|---|---|
"""


def problem_page() -> str:
    """All kinds as Markdown."""
    rows = (f"| `{code}` | {kind.status} | {kind.title} | {kind.meaning} |\n" for code, kind in KINDS.items())
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(problem_page())
