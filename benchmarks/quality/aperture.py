"""The aperture meter: how far a mouth is open, measured on the pixels of a decoded video.

Aperture = distance of the inner lips' middle points (mesh 13, 14) along the mouth's own vertical, over the outer mouth width
(mesh 61, 291), both from the 468-point face mesh. It is signed: the mesh may place closed lips slightly across each other.
Measured against the alternatives (three pairs of points, inner corners, eye distance) this one has the widest range and no
more noise; `calibrate_aperture` publishes noise and linearity. The mesh reads closed lips as 0.01 to 0.03, differently for
every face, so "closed" is judged against that face's own rest value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from benchmarks.core.decode import decode_rgb
from kernels.arrays import F32, U8
from kernels.errors import LiveAnchorError, ShapeError

INNER_UPPER_LIP: Final = 13
INNER_LOWER_LIP: Final = 14
MOUTH_CORNER_RIGHT: Final = 61
MOUTH_CORNER_LEFT: Final = 291
CLOSED_MARGIN: Final = 0.02
"""A mouth is closed below its rest value plus this."""
MIN_FACE_SHARE: Final = 0.99


class NoFaceError(LiveAnchorError):
    """Too many frames of a measured video show no face: nothing can be concluded from it.

    Args:
        share: Share of frames with a face, 0..1.
        frames: Frames of the video.
    """

    code = "no_face_in_video"

    def __init__(self, share: float, frames: int) -> None:
        super().__init__(share, frames)
        self.share = share
        self.frames = frames

    def __str__(self) -> str:
        """Say in one line in how many frames a face was found."""
        return f"a face in {self.share:.1%} of {self.frames} frames; {MIN_FACE_SHARE:.0%} are needed"


class Landmarks(Protocol):
    """What the meter reads of a face: `points`, float32 (468, 2 or 3), image pixels."""

    @property
    def points(self) -> F32:
        """Landmarks in image pixels."""


class Tracker(Protocol):
    """Follows one face through a video; `engines.face.mesh.FaceTracker` is the real one."""

    def update(self, rgb: U8) -> Landmarks | None:
        """Landmarks in the next frame, uint8 (H, W, 3) RGB, or None."""

    def reset(self) -> None:
        """Forget the face."""


@dataclass(frozen=True)
class Apertures:
    """Apertures of a video.

    Attributes:
        values: float32 (n,), one per frame, in mouth widths; NaN where the frame shows no face.
    """

    values: F32

    @property
    def face_share(self) -> float:
        """Share of frames that show a face, 0..1."""
        return float(np.isfinite(self.values).mean()) if self.values.size else 0.0

    @property
    def rest(self) -> float:
        """Median: the rest value when the video is an idle loop.

        Raises:
            NoFaceError: Fewer than 99 % of the frames show a face.
        """
        self.require_faces()
        return float(np.nanmedian(self.values))

    def require_faces(self) -> None:
        """Refuse a video that cannot be judged.

        Raises:
            NoFaceError: Fewer than 99 % of the frames show a face.
        """
        if self.face_share < MIN_FACE_SHARE:
            raise NoFaceError(self.face_share, self.values.size)


def aperture_of(points: F32) -> float:
    """Aperture of one face.

    Args:
        points: float32 (468, 2 or 3), pixels, y down.

    Returns:
        Signed gap over mouth width; NaN when the mouth has no width.

    Raises:
        ShapeError: Not 468 points.
    """
    if points.ndim != 2 or points.shape[0] < 468 or points.shape[1] < 2:
        raise ShapeError("points", str(points.shape), "(468, 2) or (468, 3)")
    across = points[MOUTH_CORNER_LEFT, :2] - points[MOUTH_CORNER_RIGHT, :2]
    width = float(np.hypot(*across))
    if width <= 0.0:
        return float("nan")
    down = np.array([-across[1], across[0]]) / width
    return float((points[INNER_LOWER_LIP, :2] - points[INNER_UPPER_LIP, :2]) @ down) / width


class ApertureMeter:
    """Measures videos of one face.

    Args:
        tracker: Reset at the start of every video.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def measure(self, frames: Iterable[U8]) -> Apertures:
        """Apertures of consecutive pictures, each uint8 (H, W, 3), RGB."""
        self._tracker.reset()
        values = []
        for rgb in frames:
            face = self._tracker.update(rgb)
            values.append(float("nan") if face is None else aperture_of(face.points))
        return Apertures(np.array(values, dtype=np.float32))

    def measure_video(self, video: bytes | Path) -> Apertures:
        """Apertures of the decoded frames of a video file or its bytes."""
        return self.measure(decode_rgb(video))


def face_mesh_meter(weights_dir: Path) -> ApertureMeter:
    """The meter over the public face mesh.

    Args:
        weights_dir: Folder with the two tflite files of `liveanchor weights pull face`.

    Raises:
        ModelFileError: They are not there.
    """
    from engines.face.mesh import FaceMesh, FaceTracker

    return ApertureMeter(FaceTracker(FaceMesh(weights_dir)))
