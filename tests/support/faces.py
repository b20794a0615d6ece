"""Faces for tests: the drawn presenter as the picture, and the real networks, pulled by the project's own code."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import cv2
import numpy as np

from engines.face.mesh import FaceMesh
from engines.face.weights import FACE
from engines.weights.errors import WeightsDownloadError
from engines.weights.home import face_weights_dir
from engines.weights.inventory import weights_status
from engines.weights.pull import pull
from kernels.arrays import U8
from pipeline.presenter.draw import PresenterDrawing, draw_presenter
from tests.support.require import missing


@functools.cache
def presenter() -> PresenterDrawing:
    """The presenter on a 360 x 640 canvas; the face is about 170 px high."""
    return draw_presenter(360, 640)


@functools.cache
def _weights() -> Path | str:
    """Folder with the models, or why there is none. Never writes into the person's own data folder."""
    if weights_status(FACE).state == "ready":
        return face_weights_dir()
    try:
        return pull(FACE, Path(tempfile.mkdtemp(prefix="liveanchor-test-"))).folder
    except WeightsDownloadError as error:
        return str(error)


def face_weights() -> Path:
    """Folder with the models; skips when they cannot be had, fails when `LIVEANCHOR_REQUIRE_FACE=1`."""
    found = _weights()
    if isinstance(found, Path):
        return found
    missing("FACE", found)


@functools.cache
def _mesh(folder: Path) -> FaceMesh:
    return FaceMesh(folder)


def face_mesh() -> FaceMesh:
    """The networks, loaded once."""
    return _mesh(face_weights())


def studio(width: int, height: int) -> U8:
    """An empty picture: a soft gradient without anything face-like."""
    ramp = np.linspace(60, 110, height, dtype=np.float32)[:, None, None]
    return np.broadcast_to(ramp, (height, width, 3)).astype(np.uint8).copy()


def paste_presenter(canvas: U8, x: int, y: int, scale: float) -> U8:
    """A copy of `canvas` with the presenter at (x, y), as far as it fits, resized by `scale`."""
    rgb = presenter().rgb
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    small = cv2.resize(rgb, (round(rgb.shape[1] * scale), round(rgb.shape[0] * scale)), interpolation=method)
    result = canvas.copy()
    left, top = max(x, 0), max(y, 0)
    right, bottom = min(x + small.shape[1], canvas.shape[1]), min(y + small.shape[0], canvas.shape[0])
    result[top:bottom, left:right] = small[top - y : bottom - y, left - x : right - x]
    return result
