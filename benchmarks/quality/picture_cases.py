"""The cases of `picture`: which measure makes which, and how each is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from benchmarks.core.decode import decode_rgb
from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.quality.aperture import ApertureMeter
from benchmarks.quality.expression_cases import MEASURES as EXPRESSION_MEASURES
from benchmarks.quality.main_job_run import CaseLeftOut
from benchmarks.quality.picture_job import SUITE, PictureJob, Portrait, mean_luma_flow
from benchmarks.quality.picture_measures import (
    LEAST_NOSE_PX,
    aperture_steps,
    breath_px,
    detail,
    follow,
    following,
    textured_points,
    tooth_luma,
)
from engines.face import topology
from engines.face.mesh import FaceTracker
from kernels.arrays import F32
from pipeline.mini.behaviour import MINI_BEHAVIOUR

NOSE_TIP: Final = 4
NOSE_BOX: Final = (0.0, 0.10, 0.07)
HAIR_BOX: Final = (-0.17, 0.16, 0.11)
CHEST_BOX: Final = (0.85, 0.55, 0.16)
"""Boxes for `Portrait.near`: face heights below a landmark (nose tip, forehead top, chin), half width, half height."""
POINTS_APART: Final = 6.0
POINTS_APART_FACE: Final = 0.028
"""Followed points are this far apart at most, in pixels and in face heights: of four on a small face two may slip along an edge."""
FLOW_EVERY: Final = 10
HALF_STEP: Final = 0.5


def lips(job: PictureJob) -> list[BenchmarkRecord]:
    """The default presenter speaks held-out sentences."""
    meter = ApertureMeter(FaceTracker(job.mesh))
    steps = [aperture_steps(meter.measure_video(job.drawing.face.speak(voice)).values) for voice in job.voices]
    pooled = np.concatenate(steps)
    return [
        _record(job, "aperture_step_p99", "1", [float(np.percentile(s, 99)) for s in steps], np.percentile(pooled, 99)),
        _record(
            job,
            "aperture_step_over_half",
            "1",
            [float((s > HALF_STEP).mean()) for s in steps],
            (pooled > HALF_STEP).mean(),
        ),
    ]


def teeth(job: PictureJob) -> list[BenchmarkRecord]:
    """A photograph that shows teeth, and the same taken with less light, speak; the worse one counts."""
    errors: list[float] = []
    for photo in job.toothy:
        own = tooth_luma(photo.canvas, photo.points)
        if own is None:
            print(f"# {photo.name} shows no teeth of its own")
            continue
        tracker, seen = FaceTracker(job.mesh), []
        for frame in job.speech(photo):
            face = tracker.update(frame)
            luma = None if face is None else tooth_luma(frame, face.points)
            if luma is not None:
                seen.append(luma)
        if not seen:
            raise CaseLeftOut(f"{photo.name} shows its teeth in no frame")
        print(
            f"# {photo.name}: teeth {own:.0f} in the photo, {np.percentile(seen, (5, 50, 95)).round()} in {len(seen)} frames"
        )
        errors.append(abs(float(np.median(seen)) - own))
    if not errors:
        raise CaseLeftOut("no photograph shows teeth")
    return [_record(job, "teeth_luma_error_photo", "levels", errors, max(errors))]


def head(job: PictureJob) -> list[BenchmarkRecord]:
    """Hair against the nose tip while a portrait speaks; the axis and portrait that are furthest from 0.75 count."""
    slopes = []
    for portrait in job.portraits:
        frames = job.speech(portrait)
        nose = _middle(portrait, frames, NOSE_TIP, NOSE_BOX)
        hair = _middle(portrait, frames, topology.FOREHEAD_TOP, HAIR_BOX)
        found = following(nose, hair)
        moved = np.ptp(nose, axis=0)
        print(f"# {portrait.name}: hair / nose x {found[0]:.2f}, y {found[1]:.2f}; the nose moves {moved.round(1)} px")
        slopes += [slope for slope in found if np.isfinite(slope)]
    if not slopes:
        raise CaseLeftOut(f"no nose moves by {LEAST_NOSE_PX} px")
    worst = max(slopes, key=lambda slope: abs(slope - 0.75))
    return [_record(job, "hair_follows_nose", "1", slopes, worst, higher_is_better=True)]


def chest(job: PictureJob) -> list[BenchmarkRecord]:
    """Silent portraits breathe; the one that does least counts."""
    heights = []
    for portrait in job.portraits:
        frames = job.silence(portrait)
        nose = _middle(portrait, frames, NOSE_TIP, NOSE_BOX)
        moved = _middle(portrait, frames, topology.CHIN, CHEST_BOX)
        heights.append(breath_px(moved[:, 1], nose, len(portrait.canvas)))
        print(f"# {portrait.name}: breath {heights[-1]:.2f} px")
    return [_record(job, "chest_breath_px", "px", heights, min(heights), higher_is_better=True)]


def background(job: PictureJob) -> list[BenchmarkRecord]:
    """Optical flow behind portraits that speak; the worst counts."""
    flows = []
    for portrait in job.portraits:
        try:
            mask = job.background(portrait) > 0
        except CaseLeftOut as error:
            print(f"# {error}")
            continue
        frames = job.speech(portrait)
        squares = [np.square(mean_luma_flow(frames[0], f)[mask]).sum(-1).mean() for f in frames[FLOW_EVERY::FLOW_EVERY]]
        flows.append(float(np.sqrt(np.mean(squares))))
        print(f"# {portrait.name}: background {flows[-1]:.3f} px")
    return [_record(job, "background_motion_px", "px", flows, max(flows))]


def sharpness(job: PictureJob) -> list[BenchmarkRecord]:
    """Detail of eyes and hair in the neutral frame; the lowest share counts."""
    shares = []
    for portrait in (*job.portraits, job.large_drawing):
        neutral = list(decode_rgb(portrait.face.film(np.repeat(MINI_BEHAVIOUR.rest()[None], 25, axis=0))))[-1]
        for name, box in (("eyes", _eye_box(portrait)), ("hair", _hair_box(portrait))):
            shares.append(detail(neutral, box) / max(detail(portrait.canvas, box), 1e-9))
            print(f"# {portrait.name}: {name} keep {shares[-1]:.2f}")
    return [_record(job, "detail_kept", "1", shares, min(shares), higher_is_better=True)]


def _middle(
    portrait: Portrait, frames: Sequence[np.ndarray], landmark: int, box: tuple[float, float, float]
) -> np.ndarray:
    """Where the followed points of a box are in every frame, (n, 2)."""
    mask = portrait.near(landmark, *box)
    points = textured_points(frames[0], mask, 40, min(POINTS_APART, POINTS_APART_FACE * portrait.face_px))
    if len(points) < 3:
        raise CaseLeftOut(f"nothing to follow near landmark {landmark} of {portrait.name}")
    return follow(frames, points).middle()


def _eye_box(portrait: Portrait) -> tuple[int, int, int, int]:
    ids = [*topology.RIGHT_EYE_UPPER, *topology.RIGHT_EYE_LOWER, *topology.LEFT_EYE_UPPER, *topology.LEFT_EYE_LOWER]
    return _box(portrait.points[ids], 0.03 * portrait.face_px, portrait)


def _hair_box(portrait: Portrait) -> tuple[int, int, int, int]:
    down, across, tall = HAIR_BOX
    middle = portrait.points[topology.FOREHEAD_TOP] + (0.0, down * portrait.face_px)
    corners = middle + np.array([[-across, -tall], [across, tall]], np.float32) * portrait.face_px
    return _box(corners.astype(np.float32), 0.0, portrait)


def _box(points: F32, room: float, portrait: Portrait) -> tuple[int, int, int, int]:
    height, width = portrait.canvas.shape[:2]
    (x0, y0), (x1, y1) = points.min(axis=0) - room, points.max(axis=0) + room
    return max(int(x0), 0), max(int(y0), 0), min(int(x1) + 1, width), min(int(y1) + 1, height)


def _record(
    job: PictureJob,
    case: str,
    unit: str,
    samples: Sequence[float],
    value: float | np.floating,
    higher_is_better: bool = False,
) -> BenchmarkRecord:
    before = job.options.baseline.get(case)
    return make_record(
        job.run,
        suite=SUITE,
        case=case,
        unit=unit,
        samples=samples,
        value=float(value),
        higher_is_better=higher_is_better,
        baseline=None if before is None else job.options.baseline_name,
        baseline_value=None if before is None else before.value,
    )


MEASURES: Final[dict[Callable[[PictureJob], list[BenchmarkRecord]], tuple[str, ...]]] = {
    lips: ("aperture_step_p99", "aperture_step_over_half"),
    teeth: ("teeth_luma_error_photo",),
    head: ("hair_follows_nose",),
    chest: ("chest_breath_px",),
    background: ("background_motion_px",),
    sharpness: ("detail_kept",),
    **EXPRESSION_MEASURES,
}
