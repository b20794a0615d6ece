"""Face detection, landmarks, tracking and plausibility on the drawn presenter, with the real networks."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from engines.face.detector import DETECTOR_FILE, FaceDetection
from engines.face.litert_model import ModelFileError
from engines.face.mesh import MESH_FILE, FaceLandmarks, FaceMesh, FaceTracker, Roi
from engines.face.plausibility import check_face, eye_openness, face_pose, mouth_aperture, shape_faults
from kernels.arrays import U8
from kernels.errors import ShapeError
from pipeline.presenter.template import landmarks_on
from tests.support.faces import face_mesh, paste_presenter, presenter, studio


@pytest.fixture(scope="module")
def mesh() -> FaceMesh:
    return face_mesh()


def _distance(found: FaceLandmarks | None, expected: NDArray[np.floating]) -> float:
    """Mean distance of the landmarks from where they must be, in face widths."""
    assert found is not None
    width = float(np.ptp(expected[:, 0]))
    return float(np.linalg.norm(found.points[:, :2] - expected[:, :2], axis=1).mean()) / width


def test_landmarks_lie_where_the_drawing_has_them(mesh: FaceMesh) -> None:
    drawing = presenter()
    found = mesh.landmarks(drawing.rgb)
    assert found is not None
    assert found.points.shape == (468, 3) and found.points.dtype == np.float32
    assert _distance(found, drawing.landmarks) < 0.03
    assert found.detector_score > 0.7 and found.mesh_score > 0.95
    assert found.points[1, 2] < found.points[234, 2]  # the nose is nearer than the ears
    assert mouth_aperture(found.points) < 0.1 and eye_openness(found.points) > 0.15
    box = found.box
    assert box[0] < box[2] and box[1] < box[3]


@pytest.mark.parametrize(
    ("width", "height", "x", "y", "scale"),
    [
        (1600, 900, 1200, 300, 0.5),  # 85 px high, off-centre
        (1600, 900, 40, 30, 0.45),  # in the corner
        (1080, 1920, 700, 1300, 0.9),
        (1920, 1080, 300, -200, 3.0),  # 520 px high
        (400, 420, -360, -480, 3.0),  # fills the picture
        (300, 300, 60, -60, 0.6),  # a small picture
    ],
)
def test_faces_of_any_size_and_place_are_found(
    mesh: FaceMesh, width: int, height: int, x: int, y: int, scale: float
) -> None:
    rgb = paste_presenter(studio(width, height), x, y, scale)
    detections = mesh.detect(rgb)
    assert detections
    best = max(detections, key=lambda d: d.score)
    expected = presenter().landmarks * scale + np.array([x, y, 0], dtype=np.float32)
    assert _distance(mesh.landmarks(rgb, best), expected) < 0.04
    assert _distance(mesh.landmarks(rgb), expected) < 0.04


def test_two_faces_are_two_detections(mesh: FaceMesh) -> None:
    rgb = paste_presenter(paste_presenter(studio(1280, 720), 60, 60, 1.0), 840, 100, 0.8)
    faces = [d for d in mesh.detect(rgb) if d.score > 0.7]
    assert len(faces) == 2
    centres = sorted(float(d.box[0] + d.box[2]) / 2 for d in faces)
    assert abs(centres[0] - (60 + 180)) < 20 and abs(centres[1] - (840 + 180 * 0.8)) < 20
    assert [d.score for d in faces] == sorted((d.score for d in faces), reverse=True)


def test_detection_keypoints_are_the_subjects_own(mesh: FaceMesh) -> None:
    best = mesh.detect(presenter().rgb)[0]
    right_eye, left_eye, nose, mouth = best.keypoints[:4]
    assert right_eye[0] < nose[0] < left_eye[0] and right_eye[1] < nose[1] < mouth[1]
    assert best.side == pytest.approx(float((best.box[2:] - best.box[:2]).max()))


def test_an_empty_picture_has_no_face(mesh: FaceMesh) -> None:
    for size in ((640, 480), (64, 64), (1, 1), (2000, 3)):
        assert mesh.landmarks(studio(*size)) is None
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=np.uint8)
    assert mesh.landmarks(noise) is None


@pytest.mark.parametrize("angle", [-25, 25])
def test_a_tilted_head_is_followed(mesh: FaceMesh, angle: int) -> None:
    drawing = presenter()
    turn = cv2.getRotationMatrix2D((180, 250), angle, 1.0)
    rgb = cv2.warpAffine(drawing.rgb, turn, (360, 640), borderMode=cv2.BORDER_REPLICATE)
    found = mesh.landmarks(rgb)
    expected = drawing.landmarks[:, :2] @ turn[:, :2].T + turn[:, 2]
    assert _distance(found, expected) < 0.03
    assert found is not None and face_pose(found.points).roll == pytest.approx(-angle, abs=4)


def test_tracking_follows_without_detection_and_recovers_after_a_jump(
    mesh: FaceMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    detect = mesh.detect

    def counted(rgb: U8, min_score: float = 0.5, thorough: bool = True) -> list[FaceDetection]:
        calls.append(rgb.shape)
        return detect(rgb, min_score, thorough)

    monkeypatch.setattr(mesh, "detect", counted)
    tracker = FaceTracker(mesh)
    for step in range(6):
        rgb = paste_presenter(studio(900, 700), 40 + 9 * step, 20 + 4 * step, 1.0)
        expected = presenter().landmarks + np.array([40 + 9 * step, 20 + 4 * step, 0])
        assert _distance(tracker.update(rgb), expected) < 0.03
    assert len(calls) == 1
    assert tracker.update(studio(900, 700)) is None
    far = paste_presenter(studio(900, 700), 520, 40, 1.0)
    assert _distance(tracker.update(far), presenter().landmarks + np.array([520, 40, 0])) < 0.03
    assert len(calls) == 3
    tracker.reset()
    assert tracker.update(far) is not None and len(calls) == 4


def test_previous_landmarks_far_from_any_face_fall_back_to_detection(mesh: FaceMesh) -> None:
    rgb = paste_presenter(studio(900, 700), 500, 30, 1.0)
    stray = FaceLandmarks(landmarks_on(360) + np.array([-100, 300, 0], dtype=np.float32), 0.9, 1.0)
    assert _distance(mesh.landmarks(rgb, previous=stray), presenter().landmarks + np.array([500, 30, 0])) < 0.03


def test_landmarks_are_steady_under_noise(mesh: FaceMesh) -> None:
    """The meter's noise: 2 levels of pixel noise move a landmark by well under 1 % of the face."""
    rng = np.random.default_rng(3)
    drawing = presenter()
    noisy = [np.clip(drawing.rgb + rng.normal(0, 2, drawing.rgb.shape), 0, 255).astype(np.uint8) for _ in range(4)]
    points = np.stack([mesh.refine(rgb, Roi.from_points(drawing.landmarks), 1.0).points[:, :2] for rgb in noisy])
    assert points.std(axis=0).mean() / np.ptp(drawing.landmarks[:, 0]) < 0.004


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((8, 8), np.uint8),
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((8, 8, 3), np.float32),
        np.zeros((0, 8, 3), np.uint8),
    ],
)
def test_wrong_pictures_are_shape_errors(mesh: FaceMesh, bad: U8) -> None:
    with pytest.raises(ShapeError):
        mesh.detect(bad)
    with pytest.raises(ShapeError):
        mesh.landmarks(bad)


def test_a_degenerate_region_is_refused(mesh: FaceMesh) -> None:
    for side in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ShapeError):
            mesh.refine(studio(64, 64), Roi((32.0, 32.0), side, 0.0), 1.0)


def test_missing_and_broken_models_are_typed(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="weights pull face"):
        FaceMesh(tmp_path)
    (tmp_path / DETECTOR_FILE).write_bytes(b"not a model" * 10)
    (tmp_path / MESH_FILE).write_bytes(b"")
    with pytest.raises(ModelFileError, match="not a usable model"):
        FaceMesh(tmp_path).detect(np.zeros((64, 64, 3), np.uint8))


def test_the_presenter_is_a_steady_face(mesh: FaceMesh) -> None:
    drawing = presenter()
    found = mesh.landmarks(drawing.rgb)
    assert found is not None
    check = check_face(mesh, drawing.rgb, found)
    assert check.is_face and check.steady_score > 0.9 and check.wander < 0.03 and check.shape_faults == ()
    assert check.points.shape == (468, 3)
    pose = face_pose(check.points)
    assert max(abs(pose.yaw), abs(pose.pitch), abs(pose.roll)) < 8


def _cat() -> U8:
    """A drawn cat: ears, round eyes with slits, a small nose, whiskers."""
    picture = np.full((480, 480, 3), (120, 150, 90), np.uint8)
    fur, dark = (200, 140, 80), (60, 40, 30)
    for side in (-1, 1):
        ear = np.array([[240 + side * 50, 130], [240 + side * 120, 40], [240 + side * 140, 190]])
        cv2.fillPoly(picture, [ear], fur)
    cv2.circle(picture, (240, 240), 150, fur, -1)
    for side in (-1, 1):
        cv2.ellipse(picture, (240 + side * 60, 210), (30, 26), 0, 0, 360, (180, 200, 60), -1)
        cv2.ellipse(picture, (240 + side * 60, 210), (7, 24), 0, 0, 360, dark, -1)
        for k in range(3):
            cv2.line(picture, (240 + side * 30, 290 + 8 * k), (240 + side * 170, 270 + 22 * k), (250, 250, 250), 2)
    cv2.fillPoly(picture, [np.array([[222, 268], [258, 268], [240, 288]])], (190, 90, 90))
    cv2.ellipse(picture, (225, 300), (16, 12), 0, 0, 180, dark, 3)
    cv2.ellipse(picture, (255, 300), (16, 12), 0, 0, 180, dark, 3)
    return picture


def test_a_cat_is_no_face_whatever_the_detector_says(mesh: FaceMesh) -> None:
    cat = _cat()
    for detection in mesh.detect(cat, min_score=0.1):
        first = mesh.refine(cat, Roi.from_detection(detection), detection.score)
        second = mesh.refine(cat, Roi.from_points(first.points), detection.score)
        assert not check_face(mesh, cat, second).is_face


def test_shape_faults_of_impossible_faces() -> None:
    good = landmarks_on(360)
    assert shape_faults(good) == []
    assert shape_faults(good[:, :2]) == []
    assert shape_faults(good * 7 + 100) == []
    turn = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.float32)
    assert shape_faults(good @ turn.T) == []  # roll is no fault
    assert shape_faults(good * np.array([-1, 1, 1], np.float32))  # a mirror image has its eyes swapped
    assert shape_faults(good * np.array([1, 0.2, 1], np.float32))
    assert shape_faults(good * np.array([0.2, 1, 1], np.float32))
    assert "finite" in shape_faults(np.full((468, 3), np.nan, np.float32))[0]
    assert "collapse" in shape_faults(np.zeros((468, 3), np.float32))[0]
    wide = good.copy()
    wide[61, 0] -= 200
    assert "mouth" in shape_faults(wide)[0]


def test_pose_signs() -> None:
    """A head turned in space: yaw > 0 when the subject's left side goes away, pitch > 0 when it looks down."""
    good = landmarks_on(360) - landmarks_on(360).mean(axis=0)
    rest = face_pose(good)
    a = np.radians(20.0)
    yaw = np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]])
    pitch = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    assert face_pose((good @ yaw.T).astype(np.float32)).yaw - rest.yaw == pytest.approx(20, abs=1)
    assert face_pose((good @ pitch.T).astype(np.float32)).pitch - rest.pitch == pytest.approx(20, abs=1)


def test_lids_and_lips_from_landmarks() -> None:
    points = landmarks_on(360)
    assert eye_openness(points) > 0.2
    shut = points.copy()
    for upper, lower in ((159, 145), (386, 374)):
        shut[upper] = shut[lower]
    assert eye_openness(shut) == 0.0
    opened = points.copy()
    opened[14, 1] += 30
    assert mouth_aperture(opened) > mouth_aperture(points) + 0.3
