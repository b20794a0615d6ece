"""The face models of this machine, pulled where they are not here yet."""

from __future__ import annotations

import os
from pathlib import Path

from engines.face.mesh import MESH_FILE, FaceMesh
from engines.face.selfie import SELFIE_FILE, SelfieSegmenter
from engines.face.weights import FACE
from engines.weights.home import FACE_DIR_ENV, face_weights_dir, liveanchor_home
from engines.weights.pull import pull
from kernels.errors import InvalidInputError


def load_face_mesh(home: Path | None = None) -> FaceMesh:
    """The face models, pulled first where they are not here yet.

    Args:
        home: Data folder; None = `LIVEANCHOR_HOME`.

    Raises:
        InvalidInputError: `LIVEANCHOR_FACE_DIR` names a folder without them.
        LiveAnchorError: They are not here and cannot be pulled.
    """
    return FaceMesh(_folder_with(MESH_FILE, home))


def load_selfie(home: Path | None = None) -> SelfieSegmenter:
    """The model of a person's outline; arguments and errors as of `load_face_mesh`."""
    return SelfieSegmenter(_folder_with(SELFIE_FILE, home))


def _folder_with(model: str, home: Path | None) -> Path:
    folder = face_weights_dir(home)
    if not (folder / model).is_file():
        if os.environ.get(FACE_DIR_ENV):
            allowed = "a folder with the face models; without the variable they are pulled"
            raise InvalidInputError(FACE_DIR_ENV, f"{folder} (no {model})", allowed)
        pull(FACE, liveanchor_home(home))
    return folder
