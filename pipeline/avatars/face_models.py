"""The face models of this machine, pulled where they are not here yet."""

from __future__ import annotations

import os
from pathlib import Path

from engines.face.mesh import FaceMesh
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
    folder = face_weights_dir(home)
    if not any(folder.glob("*.tflite")):
        if os.environ.get(FACE_DIR_ENV):
            allowed = "a folder with the two face models; without the variable they are pulled"
            raise InvalidInputError(FACE_DIR_ENV, f"{folder} (no face models)", allowed)
        pull(FACE, liveanchor_home(home))
    return FaceMesh(folder)
