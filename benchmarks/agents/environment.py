"""Environments of the packages in `integrations/`: their dependencies do not fit into ours, so each has one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from kernels.errors import LiveAnchorError

ROOT: Final = Path(__file__).parents[2]
INSTALL_S: Final = 900.0


def environment_python(package: str, extras: str = "", *, with_ours: bool = False) -> Path:
    """Python of a package's environment, which is made at the first call (some minutes, pip must reach an index).

    Args:
        package: Folder in `integrations/`.
        extras: Extras of the package, such as `[test]`.
        with_ours: Whether what we have installed can be imported there, too, behind what the package needs.

    Raises:
        LiveAnchorError: pip did not succeed.
    """
    source, folder = ROOT / "integrations" / package, ROOT / "out" / "environments" / package
    python, ready = folder / "bin" / "python", folder / ".ready"
    wanted = (source / "pyproject.toml").read_text() + (source / "constraints.txt").read_text()
    if not (ready.is_file() and ready.read_text() == wanted):
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint",
             str(source / "constraints.txt"), "--editable", f"{source}{extras}")  # fmt: skip
        if with_ours:
            (site,) = folder.glob("lib/python*/site-packages")
            (site / "ours.pth").write_text(sysconfig.get_path("purelib"))
        ready.write_text(wanted)
    return python


def variables() -> dict[str, str]:
    """Environment variables for programs there that use modules of ours, which need no more than numpy."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S)  # noqa: S603  # our own
    if done.returncode:
        raise LiveAnchorError(f"{' '.join(command[:4])}: {done.stderr[-500:]}")
