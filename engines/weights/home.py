"""Where this project keeps what it downloads and registers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kernels.errors import InvalidInputError

HOME_ENV: Final = "LIVEANCHOR_HOME"
FACE_DIR_ENV: Final = "LIVEANCHOR_FACE_DIR"
_DEFAULT_HOME: Final = "~/.cache/liveanchor"


def liveanchor_home(home: Path | str | None = None) -> Path:
    """The data folder, absolute; it is not created.

    Args:
        home: Wins over everything when given.

    Returns:
        `home`, else the environment variable `LIVEANCHOR_HOME`, else `~/.cache/liveanchor`.

    Raises:
        InvalidInputError: It, or what it should lie in, is a file.
    """
    chosen = home if home is not None else os.environ.get(HOME_ENV) or _DEFAULT_HOME
    folder = Path(chosen).expanduser().absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir():
        raise InvalidInputError(HOME_ENV, f"{folder} ({existing} is a file)", "a folder, which need not exist yet")
    return folder


def weights_dir(name: str, home: Path | str | None = None) -> Path:
    """Folder of one pulled set of weights; it may not exist yet."""
    return liveanchor_home(home) / "weights" / name


def face_weights_dir(home: Path | str | None = None) -> Path:
    """Folder with the face models.

    The environment variable `LIVEANCHOR_FACE_DIR` may name a folder that already holds them (an image built without
    network access, for instance); otherwise it is the folder that `weights pull face` fills.
    """
    override = os.environ.get(FACE_DIR_ENV)
    return Path(override).expanduser().absolute() if override else weights_dir("face", home)
