"""Calibration of the aperture meter against a film whose readings are known."""

from datetime import date

import numpy as np
import pytest
import torch

from benchmarks.core.run_info import RunInfo
from benchmarks.quality.aperture import Apertures, NoFaceError
from benchmarks.quality.calibration import (
    OPENINGS,
    calibrate,
    calibration_records,
    commanded_aperture,
    held_mouth,
)
from engines.mini.control_points import INDEX
from engines.mini.rig import mouth_gap
from engines.motion_layout import unpack_motion
from kernels.errors import InvalidInputError

IDLE = Apertures(np.full(100, 0.02, dtype=np.float32))
RUN = RunInfo(
    "cpu", "cpu, 2 cores", "2.13.0", "0123abc", date(2026, 1, 2), "python -m benchmarks.quality.calibrate_aperture"
)


class Reader:
    """Stands in for film and meter: reads `gain` * commanded aperture + `bias`, with noise, straight from the motion."""

    def __init__(self, gain: float = 0.8, bias: float = 0.02, noise: float = 0.0, lost: int = 0) -> None:
        self.gain, self.bias, self.noise, self.lost = gain, bias, noise, lost
        self.motion = np.zeros((0, 265), dtype=np.float32)

    def film(self, motion: np.ndarray) -> bytes:
        self.motion = motion
        return b"film"

    def measure_video(self, video: bytes) -> Apertures:
        assert video == b"film"
        exp = unpack_motion(torch.from_numpy(self.motion))[2]
        width = 1 + exp[:, INDEX["mouth_corner_left"], 0] - exp[:, INDEX["mouth_corner_right"], 0]
        true = (mouth_gap(exp) / width).numpy()
        values = self.gain * true + self.bias + self.noise * np.random.default_rng(0).normal(size=true.size)
        values[: self.lost] = np.nan
        return Apertures(values.astype(np.float32))


def run(reader: Reader):  # type: ignore[no-untyped-def]
    return calibrate(reader.film, reader, IDLE, frames=20)  # type: ignore[arg-type]


def test_a_linear_meter_is_recognised() -> None:
    result = run(Reader())
    slope, offset, r = result.line()
    assert (slope, offset, r) == pytest.approx((0.8, 0.02, 1.0), abs=1e-3)
    assert result.limit == pytest.approx(0.04)
    assert result.smallest_open() == pytest.approx(0.02 / 0.8, abs=1e-3)
    assert result.misread() == (0.0, 0.0)
    assert len(result.levels) == len(OPENINGS) and max(result.noise) < 1e-5


def test_noise_is_the_spread_at_a_held_mouth() -> None:
    result = run(Reader(noise=0.005))
    assert np.median(result.noise) == pytest.approx(0.005, rel=0.3)


def test_a_mouth_that_never_closes_is_reported() -> None:
    result = run(Reader(bias=0.08))
    assert result.smallest_open() == 0.0
    assert result.misread()[0] == 1.0
    rows = {record.case: record.value for record in calibration_records(RUN, "photo", result)}
    assert rows["photo_closed_above_rest"] == pytest.approx(0.06, abs=1e-4)


def test_a_mouth_that_never_opens_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="crossing"):
        run(Reader(gain=0.0)).smallest_open()


def test_a_face_that_is_lost_cannot_be_calibrated() -> None:
    with pytest.raises(NoFaceError):
        run(Reader(lost=30))


def test_a_film_of_the_wrong_length_is_refused() -> None:
    reader = Reader()
    with pytest.raises(InvalidInputError, match="frames"):
        calibrate(lambda motion: reader.film(motion[:-1]), reader, IDLE, frames=20)  # type: ignore[arg-type]


def test_held_mouth_moves_the_head_and_not_the_mouth() -> None:
    motion = held_mouth({"jaw_open": 0.5}, 60, seed=3)
    angles, shift, exp, scale = unpack_motion(torch.from_numpy(motion))
    assert motion.shape == (60, 265) and motion.dtype == np.float32
    assert torch.allclose(exp, exp[:1].expand_as(exp)) and torch.allclose(scale, torch.ones(60))
    assert 0.5 < float(angles.std(0).max()) < 4.0 and float(angles.abs().max()) < 5.0
    assert float(shift.abs().max()) < 0.02
    np.testing.assert_array_equal(motion, held_mouth({"jaw_open": 0.5}, 60, seed=3))


def test_commanded_aperture() -> None:
    assert commanded_aperture({}) == 0.0
    assert commanded_aperture({"press": 1.0}) < 0.0
    assert commanded_aperture({"jaw_open": 1.0}) == pytest.approx(0.38 / 0.95, rel=1e-4)
    with pytest.raises(InvalidInputError, match="jaw_open"):
        commanded_aperture({"jaw": 1.0})
