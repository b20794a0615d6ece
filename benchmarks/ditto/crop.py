"""How far Ditto crops differ by the landmarks that they are measured on.

`python -m benchmarks.ditto.crop [--portrait FILE ...]` prints, per picture, the crop from each set against ours: size ratio, shift
of the centre in pixels of the 512 crop, turn in degrees. The reference's networks are compared where their files lie in the
checkpoint folder (`weights pull ditto` brings `landmark203.onnx`; `2d106det.onnx` only an operator who may use it can put there) or
are named by `--landmark203` and `--landmark106`. Neither was at hand when this was written. The other sets are choices of mesh
points: they show what the choice costs, not what the networks' disagreement does.

`--independent` compares with public landmarkers that have nothing to do with ours (`benchmarks.ditto.independent_landmarks`), on
every picture as it is, reshaped, posed and turned, and writes records with `--out`: a proxy for the reference's networks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from benchmarks.core.record import format_table, write_records
from benchmarks.core.run_info import describe_run
from benchmarks.ditto.crop_independent import SCALE, SHIFT, Difference, compare, compare_faces, records, summary
from benchmarks.ditto.independent_landmarks import Dlib68, FaceApi68, FacePoints, Landmarker, Mtcnn5
from benchmarks.ditto.landmark_faces import faces_of
from engines.ditto.checkpoints import LANDMARK_106_FILE, LANDMARK_203_FILE, ditto_folder
from engines.ditto.landmarks import Landmark106, Landmark203
from engines.face.mesh import FaceMesh
from engines.weights.home import face_weights_dir
from kernels.arrays import F32, U8
from kernels.errors import LiveAnchorError
from pipeline.avatars.face_crop import fit_canvas
from pipeline.ditto import crop_geometry
from pipeline.ditto.crop_geometry import MESH_BOX, FaceSquare, eyes_and_lips, face_square, square_around
from pipeline.ditto.face_landmarks import FaceLandmarker
from pipeline.mini.presenter import default_avatar
from pipeline.mini.registration import register_file
from pipeline.presenter.draw import draw_presenter

_LOWER_BROWS: Final = (46, 53, 52, 65, 55, 276, 283, 282, 295, 285)
_UPPER_BROWS: Final = (70, 63, 105, 66, 107, 300, 293, 334, 296, 336)
_TEMPLES: Final = (127, 356)
_NOISE_SHARE: Final = 0.02
_DRAWS: Final = 200


def square_of(mesh: F32, box: tuple[int, ...]) -> FaceSquare:
    """The crop when these mesh points bound the face; the axes are measured as always."""
    points = mesh[:, :2]
    outline = points[list(box)].astype(np.float64)
    return square_around(outline, *eyes_and_lips(points), scale=SCALE, shift_down=SHIFT)


def table(
    rgb: U8, mesh: FaceMesh, landmark203: Landmark203 | None, landmark106: Landmark106 | None = None
) -> dict[str, Difference]:
    """Every comparison for one picture; the 106 points begin from our mesh's box, not from the reference's detector."""
    found = FaceLandmarker(mesh).first(rgb).mesh
    ours = face_square(found[:, :2], scale=SCALE, shift_down=SHIFT)
    sets = {
        "lower edge of the brows": tuple(p for p in MESH_BOX if p not in _UPPER_BROWS),
        "no brows": tuple(p for p in MESH_BOX if p not in (*_UPPER_BROWS, *_LOWER_BROWS)),
        "jaw line one point shorter": tuple(p for p in MESH_BOX if p not in _TEMPLES),
        "whole mesh, forehead included": tuple(range(crop_geometry.MESH_POINTS)),
    }
    rows = {name: compare(square_of(found, box), ours) for name, box in sets.items()}
    rows[f"noise of {_NOISE_SHARE:.0%} of the eye distance"] = _noise(found, ours)
    landmarkers: dict[str, FaceLandmarker] = {}
    if landmark203 is not None:
        landmarkers["landmark203"] = FaceLandmarker(mesh, landmark203)
    if landmark106 is not None:
        landmarkers["2d106det"] = FaceLandmarker(mesh, None, landmark106)
    if landmark203 is not None and landmark106 is not None:
        landmarkers["landmark203 from 2d106det"] = FaceLandmarker(mesh, landmark203, landmark106)
    for name, landmarker in landmarkers.items():
        points = landmarker.first(rgb).crop_points
        rows[name] = compare(face_square(points, scale=SCALE, shift_down=SHIFT), ours)
    return rows


def _noise(found: F32, ours: FaceSquare) -> Difference:
    """Root mean square differences when every landmark is off by a little, independently."""
    rng = np.random.default_rng(0)
    spread = _NOISE_SHARE * float(np.linalg.norm(found[33, :2] - found[263, :2]))
    draws = [
        compare(face_square(found[:, :2] + rng.normal(0, spread, (len(found), 2)), scale=SCALE, shift_down=SHIFT), ours)
        for _ in range(_DRAWS)
    ]
    values = np.array([(one.size - 1.0, one.shift_px, one.turn_deg) for one in draws])
    size, shift, turn = np.sqrt((values**2).mean(axis=0))
    return Difference(1.0 + float(size), float(shift), float(turn))


class Reference:
    """The reference's networks as one more landmarker."""

    def __init__(self, name: str, mesh: FaceMesh, finer: Landmark203 | None, coarse: Landmark106 | None) -> None:
        self.name = name
        self._landmarker = FaceLandmarker(mesh, finer, coarse)

    def find(self, rgb: U8, box: F32) -> FacePoints | None:
        """Find the landmarks as `independent_landmarks.Landmarker` says, beginning from our mesh and not from `box`."""
        points = self._landmarker.first(rgb).crop_points
        left, right, lips = (value.astype(np.float32) for value in eyes_and_lips(points))
        return FacePoints(left, right, lips, points)


def landmarkers(
    mesh: FaceMesh, face_api: Path | None, finer: Landmark203 | None, coarse: Landmark106 | None
) -> list[Landmarker]:
    """Every landmarker that can be had, the independent ones first.

    Raises:
        MissingLandmarkerError: A package of an independent one is not here.
    """
    made: list[Landmarker] = [Dlib68(), *([FaceApi68(face_api)] if face_api else []), Mtcnn5()]
    if finer is not None:
        made.append(Reference("landmark203", mesh, finer, coarse))
    if coarse is not None:
        made.append(Reference("2d106det", mesh, None, coarse))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 0 when done, 2 when something that was asked for is not here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--portrait", type=Path, nargs="+", default=[], help="pictures beside the default presenter")
    parser.add_argument("--landmark203", type=Path, help="the reference's ONNX file, else the checkpoint folder's")
    parser.add_argument("--landmark106", type=Path, help="InsightFace's 2d106det.onnx, else the checkpoint folder's")
    parser.add_argument("--independent", action="store_true", help="other landmarkers, on every picture in many forms")
    parser.add_argument(
        "--face-api", type=Path, help="folder of the npm package @vladmandic/face-api, for --independent"
    )
    parser.add_argument("--out", type=Path, help="results file for --independent")
    options = parser.parse_args(arguments)
    try:
        _run(options)
    except LiveAnchorError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    mesh = FaceMesh(face_weights_dir())
    file203 = options.landmark203 or ditto_folder() / LANDMARK_203_FILE
    file106 = options.landmark106 or ditto_folder() / LANDMARK_106_FILE
    finer = Landmark203(file203) if options.landmark203 or file203.is_file() else None
    coarse = Landmark106(file106) if options.landmark106 or file106.is_file() else None
    for model, file in ((finer, file203), (coarse, file106)):
        print(f"{file.name}: {'compared' if model is not None else f'NOT compared, no file {file}'}")
    if options.independent:
        _run_independent(options, mesh, landmarkers(mesh, options.face_api, finer, coarse))
        return
    pictures = {"default presenter": draw_presenter().rgb}
    pictures |= {str(path): fit_canvas(np.array(Image.open(path).convert("RGB"))) for path in options.portrait}
    for name, rgb in pictures.items():
        print(name)
        for what, one in table(rgb, mesh, finer, coarse).items():
            print(f"  {what:38s} size x{one.size:.3f}  shift {one.shift_px:5.1f} px  turn {one.turn_deg:5.2f} deg")


def _run_independent(options: argparse.Namespace, mesh: FaceMesh, others: Sequence[Landmarker]) -> None:
    avatars = {"default presenter": default_avatar()}
    avatars |= {str(path): register_file(path, mesh) for path in options.portrait}
    pictures = ((f"{name}, {what}", rgb) for name, avatar in avatars.items() for what, rgb in faces_of(avatar))
    faces = compare_faces(pictures, mesh, others)
    for name, line in summary(faces).items():
        print(f"{name}: {line}")
    print(f"{faces.looked_at} faces; not found: {faces.not_found}")
    if options.out is not None:
        command = "python -m benchmarks.ditto.crop --independent --face-api DIR" + (
            " --portrait PHOTO" if options.portrait else ""
        )
        rows = records(faces, describe_run(command))
        write_records(options.out, rows)
        print(format_table(rows))


if __name__ == "__main__":
    sys.exit(main())
