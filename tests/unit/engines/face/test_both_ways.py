"""Photographs of animals are no human faces, however they are shaped; a person is one in every light."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import pytest

from engines.face.both_ways import judge_faces
from kernels.arrays import U8
from tests.support.faces import face_mesh
from tests.support.pictures import photograph


def _shaped(rgb: U8, across: float, blur: float) -> U8:
    """Stretched, smoothed (fur becomes skin), about 400 px high."""
    size = (round(rgb.shape[1] * across * 400 / rgb.shape[0]), 400)
    smooth = cv2.GaussianBlur(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), (0, 0), blur)
    return np.ascontiguousarray(smooth, np.uint8)


@pytest.mark.parametrize("name", ["cat.png", "quokka.jpg"])
@pytest.mark.parametrize(("across", "blur"), [(1.0, 0.5), (0.8, 2.0), (1.25, 3.5)])
def test_an_animal_is_no_face(name: str, across: float, blur: float) -> None:
    judged, _ = judge_faces(face_mesh(), _shaped(photograph(name), across, blur))
    assert not [face for face in judged if face.is_steady]
    assert max((face.check.steady_score for face in judged), default=0.0) < 0.6, "with a margin"


LIGHTS: dict[str, Callable[[U8], U8]] = {
    "as it is": lambda rgb: rgb,
    "dark": lambda rgb: (rgb * 0.15).astype(np.uint8),
    "grey": lambda rgb: np.repeat(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2).astype(np.uint8),
    "haze": lambda rgb: (90 + rgb * 0.3).astype(np.uint8),
}


@pytest.mark.parametrize("light", LIGHTS)
def test_a_person_is_a_face_in_any_light(light: str) -> None:
    judged, _ = judge_faces(face_mesh(), LIGHTS[light](photograph("astronaut.png")[:300, 80:380]))
    (person,) = [face for face in judged if face.is_steady]
    assert not person.shape_faults and min(person.check.steady_score, person.mirrored.steady_score) > 0.995
