"""Names the state of the sources, for the model card and for every published number."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def source_commit() -> str:
    """The commit that is checked out, with `-dirty` behind it where files were changed since; `unknown` without Git."""
    git = shutil.which("git")
    root = Path(__file__).resolve().parents[1]
    if git is None:
        return "unknown"
    head = subprocess.run([git, "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
    if head.returncode != 0:
        return "unknown"
    changed = subprocess.run(  # noqa: S603 - fixed arguments
        [git, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return head.stdout.strip() + ("-dirty" if changed.stdout.strip() else "")
