from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.ditto.crop import compare, square_of, table
from engines.ditto.landmarks import Landmark106, Landmark203
from kernels.arrays import F32
from pipeline.ditto.crop_geometry import MESH_BOX, crop_matrices, face_square, transform_points
from pipeline.ditto.face_landmarks import FaceLandmarker
from tests.support.faces import face_mesh, presenter


def test_our_own_points_give_our_own_crop() -> None:
    mesh = presenter().landmarks
    ours = face_square(mesh[:, :2], scale=2.3, shift_down=-0.125)
    same = compare(square_of(mesh, MESH_BOX), ours)
    assert abs(same.size - 1) < 1e-6 and same.shift_px < 1e-3 and same.turn_deg == 0


def test_the_forehead_makes_the_crop_larger_and_the_brows_hardly_matter() -> None:
    rows = table(presenter().rgb, face_mesh(), None)
    assert 1.05 < rows["whole mesh, forehead included"].size < 1.3
    assert abs(rows["lower edge of the brows"].size - 1) < 0.02
    assert all(np.isfinite([one.size, one.shift_px, one.turn_deg]).all() for one in rows.values())


def constant_points(path: Path, side: int, where: F32) -> Path:
    """A model with the signature of a landmark network that always answers `where`."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["data"], ["mean"], keepdims=0),
            helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
            helper.make_node("Add", ["points", "nothing"], ["out"]),
        ],
        "points",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, where.size])],
        [
            numpy_helper.from_array(where.reshape(1, -1), "points"),
            numpy_helper.from_array(np.zeros((), np.float32), "zero"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return path


def test_supplied_networks_are_compared_each_alone_and_one_after_the_other(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    where = rng.uniform(0.3, 0.7, (203, 2)).astype(np.float32)
    finer = Landmark203(constant_points(tmp_path / "203.onnx", 224, where))
    coarse = Landmark106(
        constant_points(tmp_path / "106.onnx", 192, rng.uniform(-0.5, 0.5, (106, 2)).astype(np.float32))
    )
    rows = table(presenter().rgb, face_mesh(), finer, coarse)
    mesh_only = table(presenter().rgb, face_mesh(), None)
    assert set(rows) - set(mesh_only) == {"landmark203", "2d106det", "landmark203 from 2d106det"}
    assert "2d106det" not in table(presenter().rgb, face_mesh(), finer)

    found = FaceLandmarker(face_mesh()).first(presenter().rgb).mesh[:, :2]
    start = face_square(found, scale=1.5, shift_down=-0.1)
    points = transform_points(where * 224, crop_matrices(start, 224).to_image)
    ours = face_square(found, scale=2.3, shift_down=-0.125)
    expected = compare(face_square(points, scale=2.3, shift_down=-0.125), ours)
    assert rows["landmark203"].size == pytest.approx(expected.size, rel=1e-4)
    assert rows["landmark203"].shift_px == pytest.approx(expected.shift_px, abs=0.02)
    assert rows["landmark203"].turn_deg == pytest.approx(expected.turn_deg, abs=0.02)
    assert rows["landmark203 from 2d106det"] != rows["landmark203"]
