"""The cases `expression_*` of `picture`: the same speech with and without an expression, filmed, decoded and compared.

A look comes one second after the beginning. Thresholds of the facts: corners +0.010 (happy) and -0.010 (sad), inner brows +0.030
(surprised) and -0.020 (angry), the right sign in 95 % of frames, half of it at half the strength (0.35 to 0.65), half-way within
40 ms, correlation with the speech lower by 0.03 at most.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from benchmarks.core.decode import decode_rgb
from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.quality.aperture import (
    INNER_LOWER_LIP,
    INNER_UPPER_LIP,
    MOUTH_CORNER_LEFT,
    MOUTH_CORNER_RIGHT,
)
from benchmarks.quality.expression_measures import FaceCurves, Shift, face_curves, half_way, shift
from benchmarks.quality.picture_job import SUITE, PictureJob, Portrait
from engines.face.mesh import FaceTracker
from kernels.arrays import F32, F64
from pipeline.expression.looks import Look, Looks
from pipeline.mini.expressed import express
from pipeline.types import MOTION_FPS

AT_S: Final = 1.0
RISE_S: Final = 0.4
BEGINS: Final = int(AT_S * MOTION_FPS)
HOLDS: Final = BEGINS + int(RISE_S * MOTION_FPS) + 2
UNIT: Final = "eye distances"
NOISE: Final = "the same films before the look begins (5 frames)"
BROWS_HIDDEN: Final = ("grace_hopper",)
"""Portraits whose brows lie behind the frame of glasses: the mesh reads the frame."""
PLACES: Final = (
    ("happy", "corner"), ("happy", "width"), ("sad", "corner"), ("sad", "inner_brow"), ("angry", "inner_brow"),
    ("surprised", "inner_brow"),
)  # fmt: skip


class _Films:
    """Films of one portrait that says one thing."""

    def __init__(self, job: PictureJob, portrait: Portrait) -> None:
        self._job = job
        self._portrait = portrait
        self._found: dict[tuple[str, float], F32] = {}

    @cached_property
    def _motion(self) -> F32:
        return self._portrait.face.motion(np.concatenate(self._job.voices[:2]))

    def points(self, expression: str, strength: float = 1.0) -> F32:
        """Landmarks (n, 468, 2) of every frame; NaN where there is no face."""
        key = (expression, strength)
        if key not in self._found:
            looks = Looks((Look(AT_S, expression, strength, rise_s=RISE_S),))
            film = self._portrait.face.film(express(self._motion, looks.values(0, len(self._motion))))
            tracker, found = FaceTracker(self._job.mesh), []
            for frame in decode_rgb(film):
                face = tracker.update(frame)
                found.append(np.full((468, 2), np.nan, np.float32) if face is None else face.points[:, :2])
            self._found[key] = np.stack(found)
        return self._found[key]

    def curves(self, expression: str, strength: float = 1.0) -> FaceCurves:
        """Places of corners and brows."""
        return face_curves(self.points(expression, strength))

    def shift(self, expression: str, place: str, strength: float = 1.0) -> Shift:
        """What an expression does to one place."""
        with_it, without = (getattr(self.curves(*one), place) for one in ((expression, strength), ("neutral", 1.0)))
        return shift(with_it, without, BEGINS, HOLDS)


def expressions(job: PictureJob) -> list[BenchmarkRecord]:
    """Photographs and the drawing; the portrait that shows least counts."""
    films = {portrait.name: _Films(job, portrait) for portrait in job.portraits}
    shifts: dict[tuple[str, str], list[Shift]] = {place: [] for place in PLACES}
    for (expression, place), found in shifts.items():
        for name, film in films.items():
            if "brow" in place and name in BROWS_HIDDEN:
                continue
            found.append(one := film.shift(expression, place))
            print(f"# {name}: {expression} {place} {one.held:+.4f}, sign {one.right_sign:.2f}, noise {one.noise:.4f}")
    halves = [one.shift("happy", "corner", 0.5).held / one.shift("happy", "corner").held for one in films.values()]
    late = [abs(_half_way_ms(one)) for name, one in films.items() if name not in BROWS_HIDDEN]
    losses = [_r(job, one, "neutral") - _r(job, one, "happy") for one in films.values()]
    signs = [one.right_sign for found in shifts.values() for one in found]
    print(f"# half strength {np.round(halves, 2)}, half-way off by {np.round(late)} ms, r lost {np.round(losses, 3)}")
    return [
        _shifted(job, "expression_mouth_corner_shift", shifts["happy", "corner"], 1),
        _shifted(job, "expression_sad_corner_shift", shifts["sad", "corner"], -1),
        _shifted(job, "expression_brow_shift", shifts["angry", "inner_brow"], -1),
        _shifted(job, "expression_brow_raise", shifts["surprised", "inner_brow"], 1),
        _plain(job, "expression_right_sign_share", "1", signs, min(signs), higher=True),
        _plain(job, "expression_half_strength_share", "1", halves, max(halves, key=lambda share: abs(share - 0.5))),
        _plain(job, "expression_half_way_error_ms", "ms", late, max(late)),
        _plain(job, "expression_lip_sync_r_loss", "1", losses, max(losses)),
    ]


def _half_way_ms(films: _Films) -> float:
    """How much later than after half of its rise a surprise is half there; its brows do not give way to speech."""
    curves = films.curves("surprised").inner_brow, films.curves("neutral").inner_brow
    frame = half_way(*curves, BEGINS, HOLDS)
    return 1000 * (frame / MOTION_FPS - AT_S - RISE_S / 2)


def _r(job: PictureJob, films: _Films, expression: str) -> float:
    """Correlation of the aperture with what the speech's labels expect."""
    points = films.points(expression).astype(np.float64)
    gap = points[:, INNER_LOWER_LIP] - points[:, INNER_UPPER_LIP]
    across = points[:, MOUTH_CORNER_LEFT] - points[:, MOUTH_CORNER_RIGHT]
    down = np.stack([-across[:, 1], across[:, 0]], axis=1)
    aperture: F64 = (gap * down).sum(axis=1) / (across**2).sum(axis=1)
    expected = np.concatenate([one.expected for one in job.sentences[:2]])
    count = min(len(expected), len(aperture))
    seen = np.isfinite(aperture[:count])
    return float(np.corrcoef(aperture[:count][seen], expected[:count][seen])[0, 1])


def _shifted(job: PictureJob, case: str, shifts: list[Shift], sign: int) -> BenchmarkRecord:
    held = [sign * one.held for one in shifts]
    return make_record(
        job.run,
        suite=SUITE,
        case=case,
        unit=UNIT,
        samples=held,
        value=min(held),
        higher_is_better=True,
        baseline=NOISE,
        baseline_value=max(one.noise for one in shifts),
    )


def _plain(
    job: PictureJob, case: str, unit: str, samples: list[float], value: float, *, higher: bool = False
) -> BenchmarkRecord:
    return make_record(
        job.run, suite=SUITE, case=case, unit=unit, samples=samples, value=value, higher_is_better=higher
    )


MEASURES: Final = {
    expressions: (
        "expression_mouth_corner_shift", "expression_sad_corner_shift", "expression_brow_shift", "expression_brow_raise",
        "expression_right_sign_share", "expression_half_strength_share", "expression_half_way_error_ms",
        "expression_lip_sync_r_loss",
    )
}  # fmt: skip
