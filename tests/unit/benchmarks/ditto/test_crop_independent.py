"""Crops of independent landmarkers beside ours: geometry, bookkeeping, what is missing."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from benchmarks.core.run_info import RunInfo
from benchmarks.ditto import crop as ditto_crop
from benchmarks.ditto.crop_independent import SCALE, SHIFT, compare, compare_faces, records, square_for, summary
from benchmarks.ditto.independent_landmarks import (
    Dlib68,
    FaceApi68,
    FacePoints,
    MissingLandmarkerError,
    from_68,
    read_tfjs_weights,
)
from kernels.arrays import F32, U8
from pipeline.ditto.crop_geometry import MESH_BOX, eyes_and_lips, face_square
from tests.support.faces import face_mesh, face_weights, presenter

MESH: F32 = np.ascontiguousarray(presenter().landmarks[:, :2], np.float32)
RUN = RunInfo("cpu", "a processor", "2.13.0", "0" * 40, date(2026, 1, 1), "python -m benchmarks.ditto.crop")


def points_of(mesh: F32, outline: bool = True) -> FacePoints:
    left, right, lips = (value.astype(np.float32) for value in eyes_and_lips(mesh))
    return FacePoints(left, right, lips, mesh[list(MESH_BOX)] if outline else None)


def moved(mesh: F32, zoom: float, degrees: float, shift: tuple[float, float]) -> F32:
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (zoom * mesh @ turn.T + np.array(shift)).astype(np.float32)


@pytest.mark.parametrize("outline", [True, False])
@pytest.mark.parametrize(("zoom", "degrees", "shift"), [(1.0, 0.0, (0, 0)), (1.1, 0.0, (7, -3)), (0.9, -8.0, (20, 5))])
def test_points_that_move_as_a_whole_move_the_crop_likewise(
    outline: bool, zoom: float, degrees: float, shift: tuple[float, float]
) -> None:
    other = moved(MESH, zoom, degrees, shift)
    square = square_for(points_of(other, outline), MESH)
    want = face_square(other, scale=SCALE, shift_down=SHIFT)
    np.testing.assert_allclose(square.centre, want.centre, atol=1e-2)
    assert square.size == pytest.approx(want.size, rel=1e-4)
    assert square.angle == pytest.approx(want.angle, abs=1e-4)
    difference = compare(square, face_square(MESH, scale=SCALE, shift_down=SHIFT))
    assert difference.size == pytest.approx(zoom, rel=1e-3)
    assert difference.turn_deg == pytest.approx(degrees, abs=0.02)


def test_the_68_points_give_middles_of_eyes_and_mouth() -> None:
    points = np.zeros((68, 2), np.float32)
    points[[36, 37, 38, 39, 40, 41]] = [(0, 0), (2, -1), (3, -1), (8, 0), (4, 3), (5, 3)]
    points[42:48] = points[36:42] + [20, 0]
    points[[48, 54]] = [(5, 30), (25, 32)]
    found = from_68(points)
    np.testing.assert_allclose(found.left, [(0 + 8 + 2.5 + 4.5) / 4, (0 + 0 - 1 + 3) / 4])
    np.testing.assert_allclose(found.right - found.left, [20, 0])
    np.testing.assert_allclose(found.lips, [15, 31])
    assert found.outline is points


MEASURES = ("size_off", "size_ratio", "shift_px", "turn_deg", "turn_signed_deg")


class Shifted:
    """Our own landmarks, moved; blind for every picture after the first `sees`."""

    def __init__(self, name: str, shift: float, sees: int = 99) -> None:
        self.name, self._shift, self._left = name, shift, sees

    def find(self, rgb: U8, box: F32) -> FacePoints | None:
        self._left -= 1
        assert rgb.ndim == 3 and (box[2:] > box[:2]).all()
        return points_of(MESH + np.float32(self._shift)) if self._left >= 0 else None


def test_records_hold_medians_and_the_others_own_disagreement_as_the_baseline() -> None:
    pictures = [("one", presenter().rgb), ("two", presenter().rgb)]
    faces = compare_faces(pictures, face_mesh(), [Shifted("near", 1.0), Shifted("far", 9.0, sees=1)])
    assert (faces.looked_at, faces.not_found) == (2, {"near": 0, "far": 1})
    assert [len(found) for found in faces.against_ours.values()] == [2, 1] and len(faces.against_each_other) == 1
    rows = {row.case: row for row in records(faces, RUN)}
    assert set(rows) == {f"{name}_{measure}" for name in ("near", "far") for measure in MEASURES}
    ours = face_square(MESH, scale=SCALE, shift_down=SHIFT)
    assert rows["near_shift_px"].baseline_value == pytest.approx(8 * np.sqrt(2) * 512 / ours.size, rel=1e-3)
    assert rows["near_size_ratio"].baseline is None and rows["near_turn_signed_deg"].ratio is None
    assert rows["far_shift_px"].value > rows["near_shift_px"].value and rows["near_shift_px"].n == 2
    assert set(summary(faces)) == {"near against ours", "far against ours", "the others against each other"}


def write_package(folder: Path, weights: dict[str, np.ndarray]) -> Path:
    """The npm package's weights file: 8-bit values and their scale."""
    model, entries, data = folder / "model", [], b""
    model.mkdir(parents=True)
    for name, values in weights.items():
        entries.append(
            {
                "name": name,
                "shape": list(values.shape),
                "dtype": "float32",
                "quantization": {"dtype": "uint8", "scale": 0.01, "min": -1.28},
            }
        )
        data += values.astype(np.uint8).tobytes()
    (model / "weights.bin").write_bytes(data)
    manifest = model / "face_landmark_68_model-weights_manifest.json"
    manifest.write_text(json.dumps([{"weights": entries, "paths": ["weights.bin"]}]), encoding="utf-8")
    return folder


def weights_of_the_network() -> dict[str, np.ndarray]:
    rng, made, before = np.random.default_rng(0), {}, 3
    for block, width in enumerate((32, 64, 128, 256)):
        for index in range(4):
            name, inputs = f"dense{block}/conv{index}", before if index == 0 else width
            if block == 0 and index == 0:
                made[f"{name}/filters"] = rng.integers(0, 256, (3, 3, inputs, width))
            else:
                made[f"{name}/depthwise_filter"] = rng.integers(118, 139, (3, 3, inputs, 1))
                made[f"{name}/pointwise_filter"] = rng.integers(118, 139, (1, 1, inputs, width))
            made[f"{name}/bias"] = np.full(width, 128)
        before = width
    made["fc/weights"] = rng.integers(127, 130, (256, 136))
    made["fc/bias"] = np.full(136, 178)
    return made


def test_face_api_s_network_is_read_and_runs(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "package", weights_of_the_network())
    tensors = read_tfjs_weights(folder / "model" / "face_landmark_68_model-weights_manifest.json")
    assert tensors["fc/bias"].tolist() == pytest.approx([0.5] * 136, abs=1e-6)
    found = FaceApi68(folder).find(presenter().rgb, np.array([80, 130, 280, 350], np.float32))
    assert found is not None and found.outline is not None
    assert found.outline.shape == (68, 2) and np.isfinite(found.outline).all()


def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    face_mesh()
    monkeypatch.setitem(sys.modules, "dlib", None)
    with pytest.raises(MissingLandmarkerError, match="dlib-bin"):
        Dlib68()
    with pytest.raises(MissingLandmarkerError, match="vladmandic/face-api"):
        FaceApi68(tmp_path)
    (tmp_path / "bad.json").write_text('[{"weights": [{"name": "a"}], "paths": []}]', encoding="utf-8")
    with pytest.raises(MissingLandmarkerError, match="of no use"):
        read_tfjs_weights(tmp_path / "bad.json")
    monkeypatch.setattr(ditto_crop, "face_weights_dir", face_weights)
    assert ditto_crop.main(["--independent"]) == 2
    assert "dlib-bin" in capsys.readouterr().err
