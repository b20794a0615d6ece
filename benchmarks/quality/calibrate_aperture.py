"""The command that calibrates the aperture meter on the default presenter and on photos.

`python -m benchmarks.quality.calibrate_aperture --portrait PHOTO --portrait PHOTO`
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from benchmarks.core.decode import decode_rgb
from benchmarks.core.record import format_table, write_records
from benchmarks.core.run_info import RESULTS_DIR, describe_run
from benchmarks.quality.aperture import MOUTH_CORNER_LEFT, MOUTH_CORNER_RIGHT, aperture_of, face_mesh_meter
from benchmarks.quality.calibration import (
    OPENINGS,
    SUITE,
    WIDEST,
    Calibration,
    calibrate,
    calibration_records,
    commanded_aperture,
    held_mouth,
)
from benchmarks.quality.local_face import LocalFace, portrait_face, presenter_face
from benchmarks.quality.speaking import IDLE_LOOP_FRAMES
from engines.face.mesh import FaceMesh
from engines.weights.home import face_weights_dir
from kernels.arrays import U8
from kernels.errors import LiveAnchorError
from pipeline.session.local_job import LocalPipeline

DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
TILE_PX: Final = 280
SHEET_COLUMNS: Final = 6
SHEET_POSES: Final[tuple[dict[str, float], ...]] = (
    *({name: share * value for name, value in WIDEST.items()} for share in OPENINGS[::2]),
    {"press": 1.0},
    {"pucker": 1.0},
    {"pucker": 0.5, "press": 0.5},
    {"wide": 1.0},
    {"lower_tuck": 1.0},
    {"lips_part": 1.0},
)


def mouth_tile(rgb: U8, mesh: FaceMesh, pose: dict[str, float]) -> U8:
    """The mouth of a frame, uint8 (TILE_PX, TILE_PX, 3) RGB, with measured / commanded aperture; black without a face."""
    tile = np.zeros((TILE_PX, TILE_PX, 3), dtype=np.uint8)
    face = mesh.landmarks(rgb)
    if face is not None:
        corners = face.points[[MOUTH_CORNER_RIGHT, MOUTH_CORNER_LEFT], :2]
        half = max(8, round(float(np.hypot(*(corners[1] - corners[0])))))
        x, y = np.round(corners.mean(axis=0)).astype(int)
        part = rgb[max(y - half, 0) : y + half, max(x - half, 0) : x + half]
        tile[:] = cv2.resize(part, (TILE_PX, TILE_PX), interpolation=cv2.INTER_AREA)
        reading = f"{aperture_of(face.points):.3f} / {commanded_aperture(pose):.3f}"
        cv2.putText(tile, reading, (6, TILE_PX - 8), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 255, 255), 1, cv2.LINE_AA)
    label = " ".join(f"{name} {value:.2f}" for name, value in pose.items())
    cv2.putText(tile, label, (6, 16), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (255, 255, 0), 1, cv2.LINE_AA)
    return tile


def sheet(faces: dict[str, LocalFace], mesh: FaceMesh) -> U8:
    """All poses of all faces on one picture, uint8 RGB."""
    rows = []
    for face in faces.values():
        motion = np.concatenate([held_mouth(pose, 1, 3) for pose in SHEET_POSES])
        frames = decode_rgb(face.film(motion))
        tiles = [mouth_tile(rgb, mesh, pose) for rgb, pose in zip(frames, SHEET_POSES, strict=True)]
        for start in range(0, len(tiles), SHEET_COLUMNS):
            rows.append(np.hstack(tiles[start : start + SHEET_COLUMNS]))
    return np.vstack(rows)


def print_levels(name: str, result: Calibration) -> None:
    """The sweep, for people."""
    print(f"# {name}: rest {result.rest:.4f}, closed below {result.limit:.4f}")
    for level in (*result.levels, result.pressed):
        median, spread = float(np.nanmedian(level.measured)), float(np.nanstd(level.measured))
        print(f"  commanded {level.commanded:+.3f}  read {median:+.4f}  sd {spread:.4f}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 done, 1 failure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.calibrate_aperture", description=__doc__)
    parser.add_argument("--portrait", type=Path, action="append", default=[], help="a photo; may be repeated")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument("--sheet", type=Path, help="write a picture of all mouths here")
    args = parser.parse_args(arguments)
    try:
        pipeline = LocalPipeline()
        faces = {"presenter": presenter_face(pipeline)}
        for number, photo in enumerate(args.portrait, start=1):
            faces["portrait" if number == 1 else f"portrait{number}"] = portrait_face(pipeline, photo)
        meter = face_mesh_meter(face_weights_dir())
        photos = "".join(f" --portrait {photo.name}" for photo in args.portrait)
        run = describe_run(f"python -m benchmarks.quality.calibrate_aperture{photos}")
        for name, face in faces.items():
            idle = meter.measure_video(face.film(face.idle(IDLE_LOOP_FRAMES)))
            result = calibrate(face.film, meter, idle)
            print_levels(name, result)
            records = calibration_records(run, name, result)
            print(format_table(records), flush=True)
            write_records(args.out, records)
        if args.sheet is not None:
            cv2.imwrite(str(args.sheet), sheet(faces, FaceMesh(face_weights_dir()))[..., ::-1])
    except LiveAnchorError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
