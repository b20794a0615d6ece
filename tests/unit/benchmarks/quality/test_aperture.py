"""The aperture meter: geometry, frames without a face, decoded pixels."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import av
import numpy as np
import pytest

from benchmarks.core.decode import decode_luma, decode_rgb
from benchmarks.quality.aperture import ApertureMeter, Apertures, NoFaceError, aperture_of
from kernels.errors import ShapeError


def face(gap: float, width: float = 100.0, angle_deg: float = 0.0, shift: float = 0.0) -> np.ndarray:
    """Landmarks of a mouth at (200, 300): `gap` and `width` in pixels, the head rolled clockwise on screen."""
    points = np.zeros((468, 3), dtype=np.float32)
    points[61, :2], points[291, :2] = (-width / 2, 0), (width / 2, 0)
    points[13, :2], points[14, :2] = (shift, -gap / 2), (shift, gap / 2)
    a = np.deg2rad(angle_deg)
    turn = np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]], dtype=np.float32)
    points[:, :2] = points[:, :2] @ turn + (200, 300)
    return points


@dataclass
class Found:
    points: np.ndarray


class FakeTracker:
    """Answers from a list; remembers what it saw and how often it was reset."""

    def __init__(self, gaps: list[float | None]) -> None:
        self.gaps = gaps
        self.seen: list[np.ndarray] = []
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1
        self.seen = []

    def update(self, rgb: np.ndarray) -> Found | None:
        gap = self.gaps[len(self.seen)]
        self.seen.append(rgb)
        return None if gap is None else Found(face(gap))


@pytest.mark.parametrize("angle_deg", [0.0, 12.0, -30.0, 90.0])
@pytest.mark.parametrize("gap", [0.0, 5.0, 40.0, -2.0])
def test_aperture_is_gap_over_width_for_any_roll(gap: float, angle_deg: float) -> None:
    assert aperture_of(face(gap, angle_deg=angle_deg)) == pytest.approx(gap / 100.0, abs=1e-5)


def test_aperture_ignores_size_place_and_sideways_offset() -> None:
    small, large = face(4.0, 20.0), face(20.0, 100.0, shift=7.0)
    assert aperture_of(small) == pytest.approx(aperture_of(large), abs=1e-5)
    assert np.isnan(aperture_of(face(4.0, width=0.0)))
    with pytest.raises(ShapeError):
        aperture_of(np.zeros((21, 3), dtype=np.float32))


def test_frames_without_a_face_are_nan_and_counted() -> None:
    meter = ApertureMeter(FakeTracker([10.0, None, 30.0]))
    found = meter.measure([np.zeros((8, 8, 3), dtype=np.uint8)] * 3)
    np.testing.assert_allclose(found.values, [0.1, np.nan, 0.3], atol=1e-6)
    assert found.face_share == pytest.approx(2 / 3)
    with pytest.raises(NoFaceError, match=r"66\.7%"):
        found.require_faces()
    with pytest.raises(NoFaceError):
        _ = found.rest


def test_rest_is_the_median_and_tolerates_one_percent_of_missing_faces() -> None:
    values = np.full(200, 0.03, dtype=np.float32)
    values[:3] = 0.5
    values[7] = np.nan
    assert Apertures(values).rest == pytest.approx(0.03)
    assert Apertures(np.zeros(0, dtype=np.float32)).face_share == 0.0


def test_every_video_starts_with_a_fresh_track() -> None:
    tracker = FakeTracker([1.0, 2.0])
    meter = ApertureMeter(tracker)
    frames = [np.zeros((8, 8, 3), dtype=np.uint8)] * 2
    meter.measure(frames)
    meter.measure(frames)
    assert tracker.resets == 2


def encode(levels: list[int], size: int = 64) -> bytes:
    buffer = BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "1", "preset": "ultrafast"})
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        for level in levels:
            plane = np.full((size * 3 // 2, size), 128, dtype=np.uint8)
            plane[:size] = level
            container.mux(stream.encode(av.VideoFrame.from_ndarray(plane, format="yuv420p")))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def test_the_meter_sees_decoded_pixels_in_order() -> None:
    video = encode([16, 60, 120, 235])
    tracker = FakeTracker([1.0, 2.0, 3.0, 4.0])
    measured = ApertureMeter(tracker).measure_video(video)
    np.testing.assert_allclose(measured.values, [0.01, 0.02, 0.03, 0.04], atol=1e-6)
    means = [float(frame.mean()) for frame in tracker.seen]
    np.testing.assert_allclose(means, [0, 51, 121, 255], atol=3)
    assert [int(np.median(y)) for y in decode_luma(video)] == pytest.approx([16, 60, 120, 235], abs=2)


def test_decoding_a_file_and_its_bytes_agree(tmp_path: Path) -> None:
    video = encode([30, 200])
    path = tmp_path / "clip.mp4"
    path.write_bytes(video)
    for one, other in zip(decode_rgb(video), decode_rgb(path), strict=True):
        np.testing.assert_array_equal(one, other)
