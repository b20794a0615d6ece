from __future__ import annotations

import numpy as np

from benchmarks.ditto_crop import compare, square_of, table
from pipeline.ditto.crop_geometry import MESH_BOX, face_square
from tests.unit.face_support import face_mesh, presenter


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
