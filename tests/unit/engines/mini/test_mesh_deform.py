import numpy as np
import pytest
import torch
import torch.nn.functional as F

from engines.mini.mesh_deform import Pose, build_pose, invert, posed_displacement
from engines.mini.mesh_lattice import FACE_CELL, MOUTH_CELL
from engines.mini.motion_limits import Motion, limit_motion
from engines.mini.thin_plate import thin_plate_matrix
from tests.support.mesh import landmarks, motion, prepared, random_motion

NATURAL = random_motion(60, seed=3)
EXTREME = random_motion(60, seed=4, spread=4.0)


def state(vectors: torch.Tensor, gap: float) -> tuple[Motion, torch.Tensor, Pose]:
    deformation = prepared(gap).deformation
    limited = limit_motion(vectors)
    pose = build_pose(deformation, limited)
    ones = torch.ones(len(vectors), 1)
    return limited, torch.cat([ones, limited.exp.flatten(1)], 1)[:, deformation.used], pose


def forward_fields(vectors: torch.Tensor, gap: float) -> dict[str, torch.Tensor]:
    deformation = prepared(gap).deformation
    _, coefficients, pose = state(vectors, gap)
    fields = {}
    for name, basis, nodes in (
        ("face", deformation.face_basis, deformation.face),
        ("upper", deformation.upper_basis, deformation.mouth),
        ("lower", deformation.lower_basis, deformation.mouth),
    ):
        rows, columns = nodes.depth.shape
        expression = (coefficients @ basis).view(-1, rows, columns, 2)
        fields[name] = posed_displacement(nodes, deformation, expression, pose)
    return fields


def jacobian(field: torch.Tensor, cell: int) -> torch.Tensor:
    x = (field[:, :-1, 1:] - field[:, :-1, :-1]) / cell
    y = (field[:, 1:, :-1] - field[:, :-1, :-1]) / cell
    return (1 + x[..., 0]) * (1 + y[..., 1]) - x[..., 1] * y[..., 0]


def own_side(gap: float, name: str) -> torch.Tensor:
    """Blocks of the mouth lattice in which a lip's layer can be seen."""
    deformation = prepared(gap).deformation
    frame = deformation.mouth_frame
    place = deformation.mouth.nodes @ frame[:, :2].T + frame[:, 2]
    line = deformation.mouth_line[((place[..., 0] + 1.6) * 100).round().long().clamp(0, 320)]
    seen = place[..., 1] < line if name == "upper" else place[..., 1] > line
    return seen[:-1, :-1] & seen[1:, :-1]


@pytest.mark.parametrize("gap", [0.0, 16.0])
def test_natural_motion_folds_nothing(gap: float) -> None:
    fields = forward_fields(NATURAL, gap)
    assert jacobian(fields["face"], FACE_CELL).min() > 0.02
    for name in ("upper", "lower"):
        assert jacobian(fields[name], MOUTH_CELL)[:, own_side(gap, name)].min() > 0.02


def test_extreme_motion_is_held_at_the_edge_of_folding() -> None:
    folded = jacobian(forward_fields(EXTREME, 0.0)["face"], FACE_CELL) < -0.05
    assert folded.float().mean() < 1e-4


def test_the_border_never_moves() -> None:
    face = forward_fields(EXTREME, 0.0)["face"]
    for edge in (face[:, 0], face[:, -1], face[:, :, 0], face[:, :, -1]):
        assert edge.abs().max() == 0


@pytest.mark.parametrize("name", ["face", "upper", "lower"])
def test_inversion_solves_the_forward_field(name: str) -> None:
    field = forward_fields(NATURAL, 0.0)[name]
    cell = FACE_CELL if name == "face" else MOUTH_CELL
    backward = invert(field, cell)
    _, rows, columns, _ = field.shape
    x = (2 * (torch.arange(columns) + backward[..., 0] / cell) + 1) / columns - 1
    y = (2 * (torch.arange(rows)[:, None] + backward[..., 1] / cell) + 1) / rows - 1
    reached = F.grid_sample(
        field.permute(0, 3, 1, 2), torch.stack([x, y], -1), padding_mode="border", align_corners=False
    )
    error = (backward + reached.permute(0, 2, 3, 1)).norm(dim=-1).flatten()
    assert error.kthvalue(int(0.999 * error.numel())).values < 0.05


def test_both_lip_fields_agree_away_from_the_mouth() -> None:
    fields = forward_fields(motion(jaw_open=1.0, lips_part=1.0), 0.0)
    difference = (fields["upper"] - fields["lower"]).norm(dim=-1)[0]
    deformation = prepared().deformation
    place = deformation.mouth.nodes @ deformation.mouth_frame[0, :2] + deformation.mouth_frame[0, 2]
    assert difference.max() > 20
    assert difference[place.abs() > 1.55].max() < 0.5


def test_jaw_moves_the_chin_and_not_the_nose() -> None:
    nodes = prepared().deformation.face.nodes
    moved = forward_fields(motion(jaw_open=1.0), 0.0)["face"][0]

    def at(landmark: int) -> torch.Tensor:
        place = torch.from_numpy(landmarks()[landmark, :2])
        nearest = (nodes - place).norm(dim=-1).argmin()
        return moved.reshape(-1, 2)[nearest]

    assert at(152)[1] > 15
    assert at(1).norm() < 1.5


def test_yaw_turns_near_points_more_than_far_ones() -> None:
    left, right = (forward_fields(motion(angles=(0, yaw, 0)), 0.0)["face"][0] for yaw in (-4.0, 4.0))
    nodes = prepared().deformation.face
    nose = nodes.depth.argmin()
    assert (left.reshape(-1, 2)[nose, 0] - right.reshape(-1, 2)[nose, 0]).abs() > 8


def test_thin_plate_reproduces_values_and_planes() -> None:
    rng = np.random.default_rng(0)
    handles, queries = rng.uniform(0, 512, (30, 2)), rng.uniform(0, 512, (50, 2))
    values = 3.0 + 0.2 * handles[:, 0] - 0.1 * handles[:, 1]
    matrix = thin_plate_matrix(handles, np.concatenate([queries, handles]), 0.0)
    expected = 3.0 + 0.2 * queries[:, 0] - 0.1 * queries[:, 1]
    np.testing.assert_allclose(matrix[:50] @ values, expected, atol=1e-6)
    bumpy = rng.normal(size=30)
    np.testing.assert_allclose(matrix[50:] @ bumpy, bumpy, atol=1e-6)
