"""Calibration of the aperture meter: what it reads for mouths whose opening is known.

The renderer is commanded to hold a mouth at known gaps while the head moves as it does in speech; the pictures are encoded,
decoded and measured exactly as in `main_job`. Per face: noise at a fixed mouth, linearity, the gap from which the meter no
longer says "closed", and how far the commanded-closed mouth is from the rest value of the idle loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from benchmarks.quality.aperture import CLOSED_MARGIN, ApertureMeter, Apertures
from engines.mini.control_points import INDEX
from engines.mini.rig import ACTION_INDEX, ACTIONS, actions_to_exp, mouth_gap
from engines.motion_layout import pack_motion
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from training.lip_sync import pearson

Film = Callable[[F32], bytes]
"""Motion float32 (n, 265) at 25 frames/s -> the mp4 that the product would make of it."""

SUITE: Final = "aperture_meter"
OPENINGS: Final = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
"""Shares of the sweep's widest mouth."""
WIDEST: Final = {"jaw_open": 0.85, "lips_part": 0.4}
"""The mouth of an emphatic open vowel."""
FRAMES_PER_OPENING: Final = 30
OPEN_FROM: Final = 0.10
"""Commanded apertures from here on must never read as closed."""


@dataclass(frozen=True)
class Level:
    """Holds what the meter read of one held mouth.

    Attributes:
        commanded: Aperture that was commanded: inner-lip gap over the commanded mouth width.
        measured: float32 (n,), what the meter read, NaN where it saw no face.
    """

    commanded: float
    measured: F32


@dataclass(frozen=True)
class Calibration:
    """Result for one face.

    Attributes:
        rest: Median reading over the idle loop.
        levels: The sweep, from closed to widest.
        pressed: The mouth of /m/: lips pressed together.
    """

    rest: float
    levels: tuple[Level, ...]
    pressed: Level

    @property
    def limit(self) -> float:
        """Readings below are closed."""
        return self.rest + CLOSED_MARGIN

    @property
    def noise(self) -> list[float]:
        """Standard deviation of the reading at every held mouth."""
        return [float(np.nanstd(level.measured)) for level in self.levels]

    def line(self) -> tuple[float, float, float]:
        """Least-squares slope and offset of measured over commanded aperture, and their correlation, over all frames."""
        commanded = np.concatenate([np.full(lv.measured.size, lv.commanded, np.float32) for lv in self.levels])
        measured = np.concatenate([lv.measured for lv in self.levels])
        seen = np.isfinite(measured)
        slope, offset = np.polyfit(commanded[seen], measured[seen], 1)
        return float(slope), float(offset), pearson(commanded, measured)

    def smallest_open(self) -> float:
        """Commanded aperture at which the median reading crosses the closed limit, interpolated; 0 when closed reads open.

        Raises:
            InvalidInputError: It never does: the meter is blind to this face's mouth.
        """
        medians = [float(np.nanmedian(level.measured)) for level in self.levels]
        if medians[0] >= self.limit:
            return 0.0
        for (low, a), (high, b) in pairwise(zip(self.levels, medians, strict=True)):
            if a < self.limit <= b:
                return low.commanded + (high.commanded - low.commanded) * (self.limit - a) / (b - a)
        raise InvalidInputError(
            "levels", f"medians {[round(m, 3) for m in medians]}", f"a crossing of {self.limit:.3f}"
        )

    def misread(self) -> tuple[float, float]:
        """Share of closed or pressed frames read as open, and share of clearly open frames read as closed."""
        shut = np.concatenate([self.levels[0].measured, self.pressed.measured])
        wide = np.concatenate([lv.measured for lv in self.levels if lv.commanded >= OPEN_FROM])
        return float((~(shut < self.limit)).mean()), float((~(wide >= self.limit)).mean())


def held_mouth(action_values: dict[str, float], frames: int, seed: int) -> F32:
    """Motion of a head that moves as in speech while its mouth holds still.

    Args:
        action_values: Action name -> value (`engines.mini.rig`).
        frames: Length at 25 frames/s.
        seed: Seed of the head movement.

    Returns:
        float32 (frames, 265).
    """
    rng = np.random.default_rng(seed)
    time = np.arange(frames) / 25.0
    waves = [
        sum(
            amplitude * np.sin(2 * np.pi * (hz * time + phase))
            for amplitude, hz, phase in zip((0.7, 0.3), rng.uniform((0.2, 0.7), (0.5, 1.4)), rng.random(2), strict=True)
        )
        for _ in range(6)
    ]
    angles = np.stack([2.5 * waves[0], 2.5 * waves[1], 1.5 * waves[2]], axis=1)
    shift = np.stack([0.008 * waves[3], 0.006 * waves[4], 0.0 * waves[5]], axis=1)
    exp = _exp(action_values).expand(frames, -1, -1)
    motion = pack_motion(torch.tensor(angles, dtype=torch.float32), torch.tensor(shift, dtype=torch.float32), exp)
    return np.ascontiguousarray(motion.numpy(), dtype=np.float32)


def commanded_aperture(action_values: dict[str, float]) -> float:
    """Aperture that the actions command: gap over mouth width, both in neutral mouth widths."""
    exp = _exp(action_values)
    width = 1.0 + exp[INDEX["mouth_corner_left"], 0] - exp[INDEX["mouth_corner_right"], 0]
    return float(mouth_gap(exp) / width)


def calibrate(film: Film, meter: ApertureMeter, idle: Apertures, frames: int = FRAMES_PER_OPENING) -> Calibration:
    """Run the sweep for one face.

    Args:
        film: The product's own path from motion to mp4 for that face.
        meter: The meter.
        idle: Measured idle loop of that face.
        frames: Frames per held mouth.

    Raises:
        NoFaceError: The meter does not find this face reliably.
    """
    poses = [{name: share * value for name, value in WIDEST.items()} for share in OPENINGS] + [{"press": 1.0}]
    motion = np.concatenate([held_mouth(pose, frames, seed) for seed, pose in enumerate(poses)])
    measured = meter.measure_video(film(motion))
    measured.require_faces()
    if measured.values.size != motion.shape[0]:
        raise InvalidInputError("film", f"{measured.values.size} frames", f"{motion.shape[0]}, one per motion row")
    parts = measured.values.reshape(len(poses), frames)
    levels = [Level(commanded_aperture(pose), part) for pose, part in zip(poses, parts, strict=True)]
    return Calibration(idle.rest, tuple(levels[:-1]), levels[-1])


def calibration_records(run: RunInfo, face: str, result: Calibration) -> list[BenchmarkRecord]:
    """Rows for one face; `face` becomes the prefix of the cases."""
    slope, offset, r = result.line()
    shut_as_open, open_as_shut = result.misread()
    frames = sum(level.measured.size for level in result.levels)

    def row(
        case: str, value: float, samples: Sequence[float] | None = None, *, better: bool, n: int
    ) -> BenchmarkRecord:
        return make_record(
            run,
            suite=SUITE,
            case=f"{face}_{case}",
            unit="1",
            samples=[value] if samples is None else samples,
            value=value,
            n=n,
            higher_is_better=better,
        )

    closed = float(np.nanmedian(result.levels[0].measured))
    pressed = float(np.nanmedian(result.pressed.measured))
    return [
        row("rest_aperture", result.rest, better=False, n=1),
        row("noise_sd", float(np.median(result.noise)), result.noise, better=False, n=len(result.noise)),
        row("slope", slope, better=True, n=frames),
        row("offset", offset, better=False, n=frames),
        row("linearity_r", r, better=True, n=frames),
        row("closed_above_rest", closed - result.rest, better=False, n=result.levels[0].measured.size),
        row("pressed_above_rest", pressed - result.rest, better=False, n=result.pressed.measured.size),
        row("smallest_open_aperture", result.smallest_open(), better=False, n=frames),
        row("closed_read_as_open_share", shut_as_open, better=False, n=2 * result.pressed.measured.size),
        row("open_read_as_closed_share", open_as_shut, better=False, n=frames),
    ]


def _exp(action_values: dict[str, float]) -> torch.Tensor:
    unknown = sorted(set(action_values) - set(ACTIONS))
    if unknown:
        raise InvalidInputError("action_values", ", ".join(unknown), ", ".join(ACTIONS))
    vector = torch.zeros(len(ACTIONS))
    for name, value in action_values.items():
        vector[ACTION_INDEX[name]] = value
    return actions_to_exp(vector)
