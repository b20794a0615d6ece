"""The best still frames of a short video: eyes open, mouth closed, looking into the camera, sharp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.face.mesh import FaceMesh, FaceTracker
from engines.face.plausibility import eye_openness, face_pose, mouth_aperture
from kernels.arrays import F32, U8
from pipeline.avatars.face_crop import fit_canvas
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.video_frames import open_file, opened_video, shown_frames

MAX_VIDEO_S: Final = 60.0
MAX_VIDEO_BYTES: Final = 200 * 2**20
MAX_SAMPLES: Final = 240
SAMPLES_PER_S: Final = 5.0
_SHARPNESS_SIDE: Final = 128
_ALLOWED: Final = f"an MP4 or WebM video of at most {MAX_VIDEO_S:.0f} s and {MAX_VIDEO_BYTES // 2**20} MiB"


@dataclass(frozen=True)
class Still:
    """A frame that could become the portrait.

    Attributes:
        rgb: uint8 (H, W, 3), upright, fitted into the canvas.
        time_s: Its time in the video.
        score: Higher is better; comparable within one video only.
    """

    rgb: U8
    time_s: float
    score: float


@dataclass(frozen=True)
class _Measured:
    rgb: U8
    time_s: float
    eyes: float
    mouth: float
    turn_deg: float
    sharpness: float


def best_stills(video: Path | bytes, face_mesh: FaceMesh, count: int = 5) -> list[Still]:
    """The best frames of a video, best first.

    About five frames a second are looked at. Memory stays bounded: only the best ones are kept.

    Args:
        video: The file or its content.
        face_mesh: The networks.
        count: How many to return at most.

    Returns:
        At least one.

    Raises:
        PortraitError: `portrait_unreadable`, `portrait_unsupported`, `portrait_too_large`, `portrait_video_too_long` or
            `portrait_no_face`.
    """
    tracker = FaceTracker(face_mesh)
    kept: list[_Measured] = []
    for time_s, frame in _sampled_frames(video):
        rgb = fit_canvas(frame)
        face = tracker.update(rgb)
        if face is None:
            continue
        kept.append(_measure(rgb, time_s, face.points))
        if len(kept) > 4 * count:
            kept = [measured for measured, _ in _ranked(kept)[: 2 * count]]
    if not kept:
        raise PortraitError(
            "portrait_no_face", "a video without a face", _ALLOWED, "no frame of the video shows a face"
        )
    return [Still(measured.rgb, measured.time_s, score) for measured, score in _ranked(kept)[:count]]


def _ranked(frames: list[_Measured]) -> list[tuple[_Measured, float]]:
    """Score against the clip itself: how far the eyes open and how sharp it gets differ from person to person."""
    eyes = max(frame.eyes for frame in frames)
    sharpest = max(frame.sharpness for frame in frames)
    scored = [
        (
            frame,
            min(frame.eyes / max(0.9 * eyes, 1e-6), 1.0)
            + 0.5 * min(frame.sharpness / max(0.8 * sharpest, 1e-6), 1.0)
            - 2.0 * frame.mouth
            - frame.turn_deg / 30.0,
        )
        for frame in frames
    ]
    return sorted(scored, key=lambda item: -item[1])


def _measure(rgb: U8, time_s: float, points: F32) -> _Measured:
    pose = face_pose(points)
    return _Measured(
        rgb=rgb,
        time_s=time_s,
        eyes=eye_openness(points),
        mouth=mouth_aperture(points),
        turn_deg=abs(pose.yaw) + abs(pose.pitch) + abs(pose.roll),
        sharpness=_sharpness(rgb, points),
    )


def _sharpness(rgb: U8, points: F32) -> float:
    """Variance of the Laplacian of the face at a fixed size, so that it does not depend on the resolution."""
    height, width = rgb.shape[:2]
    x0, y0 = np.clip(points[:, :2].min(axis=0), 0, (width - 2, height - 2)).astype(int)
    x1, y1 = np.clip(points[:, :2].max(axis=0), (x0 + 1, y0 + 1), (width - 1, height - 1)).astype(int)
    face = cv2.cvtColor(rgb[y0 : y1 + 1, x0 : x1 + 1], cv2.COLOR_RGB2GRAY)
    face = cv2.resize(face, (_SHARPNESS_SIDE, _SHARPNESS_SIDE), interpolation=cv2.INTER_AREA)
    return float(cv2.Laplacian(face, cv2.CV_32F).var())


def _sampled_frames(video: Path | bytes) -> Iterator[tuple[float, U8]]:
    """(time in seconds, upright RGB) of about five frames a second."""
    with open_file(video, MAX_VIDEO_BYTES, _ALLOWED) as stream, opened_video(stream, _ALLOWED) as container:
        length_s = ((container.duration or 0) - max(container.start_time or 0, 0)) / 1e6
        if length_s > MAX_VIDEO_S + 0.5:
            raise _too_long(length_s)
        next_s, samples = 0.0, 0
        for time_s, frame in shown_frames(container):
            if time_s > MAX_VIDEO_S + 0.5 or samples > MAX_SAMPLES + SAMPLES_PER_S * MAX_VIDEO_S:
                raise _too_long(time_s)
            if time_s < next_s:
                continue
            next_s = time_s + 1.0 / SAMPLES_PER_S
            samples += 1
            yield time_s, frame.rgb()


def _too_long(seconds: float) -> PortraitError:
    return PortraitError(
        "portrait_video_too_long", f"{seconds:.0f} s", _ALLOWED, f"the video lasts {seconds:.0f} s; cut it to a minute"
    )
