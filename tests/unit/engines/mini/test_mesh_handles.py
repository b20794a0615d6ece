"""A portrait's smile relaxes to a neutral mouth, and commanding it brings it back."""

import numpy as np
import torch

from engines.face import topology
from engines.mini.control_points import INDEX
from engines.mini.face_frame import build_frame, build_lip_lines
from engines.mini.mesh_deform import pose_face
from engines.mini.mesh_handles import MOST_SMILE, HandleBuilder, smile_of
from engines.mini.mesh_renderer import MeshRenderer
from engines.mini.motion_limits import limit_motion
from engines.mini.rig import ACTION_INDEX, ACTIONS, actions_to_exp
from kernels.arrays import F32, F64
from tests.support.mesh import landmarks, motion, paint, source

MOUTH = (*topology.UPPER_LIP_INNER, *topology.LOWER_LIP_INNER, *topology.UPPER_LIP_OUTER, *topology.LOWER_LIP_OUTER)


def smiling(wider: float = 1.24, bend: float = 0.0) -> F32:
    """Landmarks whose mouth is wider, its middle lower by a share of its width."""
    points = landmarks()
    ids = np.unique(MOUTH)
    across = points[ids, 0] - points[ids, 0].mean()
    half = float(np.abs(across).max())
    points[ids, 0] += np.float32(wider - 1.0) * across
    points[ids, 1] += np.float32(2.0 * bend * half * wider) * (1.0 - np.square(across / half))
    return points


def builder(points: F32) -> HandleBuilder:
    frame = build_frame(points)
    return HandleBuilder(frame, build_lip_lines(frame, paint(points)))


def smile_seen(points: F32) -> float:
    frame = build_frame(points)
    return smile_of(frame, build_lip_lines(frame, paint(points)))


def test_a_smile_is_told_by_its_width_or_by_its_bend() -> None:
    assert smile_seen(landmarks()) == smile_seen(landmarks(gap=16.0)) == 0.0
    assert 0.3 < smile_seen(smiling()) <= MOST_SMILE
    assert smile_seen(smiling(1.0, 0.06)) > 0.3


def at_rest(points: F32, smile: float) -> dict[int, F64]:
    """Displacement of the common handles, in face axes, by exp of an action `smile`."""
    built = builder(points)
    actions = torch.zeros(len(ACTIONS))
    actions[ACTION_INDEX["smile"]] = smile
    coefficients = np.concatenate([[1.0], actions_to_exp(actions).flatten().numpy()])
    handles = built.common()
    frame = built.frame
    found = {}
    for index in (61, 291, 205, 425):
        row = int(np.abs(handles.points - frame.points[index]).sum(-1).argmin())
        moved = handles.motion[row] @ coefficients
        found[index] = np.array([moved @ frame.x_axis, moved @ frame.y_axis])
    return found


def test_corners_and_cheeks_sink_to_rest_and_a_smile_brings_them_back() -> None:
    points = smiling()
    width = build_frame(points).mouth_width
    rest, back = at_rest(points, 0.0), at_rest(points, smile_seen(points))
    assert rest[61][0] > 0.015 * width and rest[291][0] < -0.015 * width, "corners inwards"
    assert min(rest[61][1], rest[291][1]) > 0.02 * width, "and down"
    assert min(rest[205][1], rest[425][1]) > 0.01 * width, "cheeks too"
    assert max(float(np.abs(moved).max()) for moved in back.values()) < 0.005 * width
    assert max(float(np.abs(moved).max()) for moved in at_rest(landmarks(), 0.0).values()) == 0.0


def test_lips_stay_shut_while_the_smile_relaxes() -> None:
    points = smiling()
    face = MeshRenderer().prepare(paint(points), points)
    posed = pose_face(face.deformation, limit_motion(motion()))
    x, y = (face.mouth.padded.x, face.mouth.padded.y)
    column = int((face.mouth.centre[0] - x) // 4)
    row = int((face.mouth.centre[1] - y) // 4)
    upper, lower = (field[0, row - 1 : row + 2, column].mean(0) for field in posed.lips)
    assert float((upper - lower).abs().max()) < 0.5, "both lips move alike where they touch"


def test_cheeks_follow_the_jaw_and_the_corners() -> None:
    built = builder(source()[1])
    handles, exp = built.common(), np.zeros(64)
    exp[1:] = actions_to_exp(motion_actions("jaw_open")).flatten().numpy()
    chin, cheek, fold = (
        float(
            built.frame.y_axis
            @ handles.motion[int(np.abs(handles.points - built.frame.points[i]).sum(-1).argmin())]
            @ exp
        )
        for i in (152, 205, 206)
    )
    assert INDEX["chin"] == 0 and chin > 0
    assert 0.1 < cheek / chin < 0.35 and 0.05 < fold / chin < 0.35


def motion_actions(name: str) -> torch.Tensor:
    actions = torch.zeros(len(ACTIONS))
    actions[ACTION_INDEX[name]] = 1.0
    return actions
