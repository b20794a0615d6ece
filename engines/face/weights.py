"""The face models as a set of weights."""

from __future__ import annotations

from typing import Final

from engines.weights.home import FACE_DIR_ENV
from engines.weights.sets import PinnedFile, WeightsEntry, WheelSource

FACE: Final = WeightsEntry(
    name="face",
    purpose="face detector, 468-point face mesh, outline of a person: registering a portrait, measuring lips",
    licence="Apache-2.0",
    approx_bytes=36_000_000,
    source=WheelSource(
        requirement="mediapipe==0.10.21",
        python_version="3.11",
        abi="cp311",
        platforms=("manylinux_2_28_x86_64", "manylinux2014_x86_64"),
        files=(
            PinnedFile(
                name="face_detection_short_range.tflite",
                member="mediapipe/modules/face_detection/face_detection_short_range.tflite",
                size=229_714,
                sha256="bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8",
            ),
            PinnedFile(
                name="face_landmark.tflite",
                member="mediapipe/modules/face_landmark/face_landmark.tflite",
                size=1_242_398,
                sha256="1055cb9d4a9ca8b8c688902a3a5194311138ba256bcc94e336d8373a5f30c814",
            ),
            PinnedFile(
                name="selfie_segmentation.tflite",
                member="mediapipe/modules/selfie_segmentation/selfie_segmentation.tflite",
                size=249_505,
                sha256="9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c",
            ),
        ),
    ),
    folder_env=FACE_DIR_ENV,
)
