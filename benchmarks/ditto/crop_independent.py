"""Compares our Ditto crop with the crops that landmarkers with nothing in common with ours would give.

`python -m benchmarks.ditto.crop --independent` runs this. It is a proxy: how far independent landmarkers disagree with ours, and
with one another, on the same faces. The reference's own two networks are not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from benchmarks.ditto.independent_landmarks import FacePoints, Landmarker
from engines.face.mesh import FaceMesh
from kernels.arrays import F32, F64, U8
from pipeline.ditto.crop_geometry import FaceSquare, eyes_and_lips, face_square, square_around
from pipeline.ditto.face_landmarks import FaceLandmarker
from pipeline.types import CROP_SIZE

SCALE: Final = 2.3
SHIFT: Final = -0.125
SUITE: Final = "ditto_crop"
SIZES: Final = ("size_off", "shift_px", "turn_deg")
"""Measures that are smaller where crops agree better."""


@dataclass(frozen=True)
class Difference:
    """Compares one crop with another: size ratio, centre shift in pixels of the other's 512 crop, turn in degrees."""

    size: float
    shift_px: float
    turn_deg: float


@dataclass
class Faces:
    """Differences of every landmarker over all faces.

    Attributes:
        against_ours: Landmarker -> one difference per face that it found.
        against_each_other: Between the first two that have an outline.
        looked_at: Faces.
        not_found: Landmarker -> faces that it did not find.
    """

    against_ours: dict[str, list[Difference]] = field(default_factory=dict)
    against_each_other: list[Difference] = field(default_factory=list)
    looked_at: int = 0
    not_found: dict[str, int] = field(default_factory=dict)


def compare(square: FaceSquare, ours: FaceSquare) -> Difference:
    """Difference of a crop from ours."""
    shift = float(np.hypot(*(square.centre - ours.centre))) * CROP_SIZE / ours.size
    return Difference(square.size / ours.size, shift, float(np.degrees(square.angle - ours.angle)))


def square_for(points: FacePoints, mesh: F32) -> FaceSquare:
    """The crop of a landmarker's points. One without an outline moves ours as it moves the middle of the eyes and the mouth."""
    left, right, lips = (value.astype(np.float64) for value in (points.left, points.right, points.lips))
    if points.outline is not None:
        return square_around(points.outline.astype(np.float64), left, right, lips, scale=SCALE, shift_down=SHIFT)
    ours = face_square(mesh, scale=SCALE, shift_down=SHIFT)
    our_left, our_right, our_lips = eyes_and_lips(mesh)
    return _carried(ours, ((our_left + our_right) / 2.0, our_lips), ((left + right) / 2.0, lips))


def compare_faces(pictures: Iterable[tuple[str, U8]], mesh: FaceMesh, landmarkers: Sequence[Landmarker]) -> Faces:
    """Compare on every picture.

    Args:
        pictures: Name and uint8 (H, W, 3), one face in each.
        mesh: Ours.
        landmarkers: The others.
    """
    faces = Faces({one.name: [] for one in landmarkers}, not_found={one.name: 0 for one in landmarkers})
    for name, rgb in pictures:
        faces.looked_at += 1
        found = FaceLandmarker(mesh).first(rgb).mesh[:, :2]
        ours = face_square(found, scale=SCALE, shift_down=SHIFT)
        box = np.concatenate([found.min(axis=0), found.max(axis=0)])
        whole: list[FaceSquare] = []
        said = []
        for one in landmarkers:
            points = one.find(rgb, box)
            if points is None:
                faces.not_found[one.name] += 1
                said.append(f"{one.name}: no face")
                continue
            square = square_for(points, found)
            difference = compare(square, ours)
            faces.against_ours[one.name].append(difference)
            said.append(f"{one.name} {show(difference)}")
            if points.outline is not None:
                whole.append(square)
        if len(whole) > 1:
            faces.against_each_other.append(compare(whole[0], whole[1]))
        print(f"  {name:18s} {'; '.join(said)}")
    return faces


def show(one: Difference) -> str:
    """In a few words."""
    return f"x{one.size:.3f} {one.shift_px:5.1f} px {one.turn_deg:+5.2f} deg"


def records(faces: Faces, run: RunInfo) -> list[BenchmarkRecord]:
    """Median and spread of each measure; baseline: the other landmarkers against each other, on the same faces."""
    baselines = {
        measure: float(np.median(found))
        for measure, _, found in _measures(faces.against_each_other)
        if measure in SIZES
    }
    return [
        make_record(
            run,
            suite=SUITE,
            case=f"{name}_{measure}",
            unit=unit,
            samples=values,
            higher_is_better=False,
            baseline="the others that have an outline, against each other" if measure in baselines else None,
            baseline_value=baselines.get(measure),
        )
        for name, differences in faces.against_ours.items()
        for measure, unit, values in _measures(differences)
    ]


def _measures(differences: Sequence[Difference]) -> list[tuple[str, str, list[float]]]:
    if not differences:
        return []
    return [
        ("size_off", "1", [abs(one.size - 1.0) for one in differences]),
        ("size_ratio", "1", [one.size for one in differences]),
        ("shift_px", "px", [one.shift_px for one in differences]),
        ("turn_deg", "deg", [abs(one.turn_deg) for one in differences]),
        ("turn_signed_deg", "deg", [one.turn_deg for one in differences]),
    ]


def summary(faces: Faces) -> Mapping[str, str]:
    """Landmarker -> its medians and 95th percentiles in one line."""
    rows = {f"{name} against ours": found for name, found in faces.against_ours.items()}
    rows["the others against each other"] = faces.against_each_other
    lines = {}
    for name, found in rows.items():
        if found:
            parts = [
                f"{measure} {np.median(values):.3f} (95 %: {np.percentile(values, 95):.3f})"
                for measure, _, values in _measures(found)
            ]
            lines[name] = f"{', '.join(parts)}, {len(found)} faces"
    return lines


def _carried(square: FaceSquare, before: tuple[F64, F64], after: tuple[F64, F64]) -> FaceSquare:
    """A square moved, sized and turned as two points are."""
    old, new = before[1] - before[0], after[1] - after[0]
    zoom = float(np.hypot(*new) / np.hypot(*old))
    turn = float(np.arctan2(new[1], new[0]) - np.arctan2(old[1], old[0]))
    turn = (turn + np.pi) % (2.0 * np.pi) - np.pi
    cos, sin = zoom * np.cos(turn), zoom * np.sin(turn)
    centre = after[0] + np.array([[cos, -sin], [sin, cos]]) @ (square.centre - before[0])
    return FaceSquare(centre, square.size * zoom, square.angle + turn)
