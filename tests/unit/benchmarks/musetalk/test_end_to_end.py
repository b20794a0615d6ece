"""What MuseTalk's GPU rows are measured with: the speech, the reference's picture, and that rows outlive a failure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from benchmarks.core.record import BenchmarkRecord, read_records
from benchmarks.core.run_info import RunInfo
from benchmarks.musetalk import end_to_end
from benchmarks.musetalk import run as bench_run
from benchmarks.musetalk.end_to_end import put_on_host
from benchmarks.musetalk.networks import Networks
from benchmarks.musetalk.news_clip import FRAMES, QUIET, frame_rms, news_speech
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.session.canvas import paste
from pipeline.types import Nv12Canvas, Nv12Rect
from tests.support.musetalk import Ears, Stamp, clip_avatar, drawn


def test_the_speech_has_the_pauses_of_the_published_rule() -> None:
    pcm = news_speech()
    assert pcm.shape == (FRAMES * 640,) and 0.20 <= (frame_rms(pcm) < QUIET).mean() <= 0.25
    assert np.abs(pcm).max() > 0.5


def test_the_reference_s_picture_is_the_product_s() -> None:
    """Resize, blend and whole-frame conversion on the host, against the one pass."""
    import torch

    from kernels.nv12.painted import painted_nv12
    from pipeline.musetalk.device_patches import DevicePatches
    from pipeline.musetalk.own_pictures import MuseTalkOwnPictures
    from pipeline.musetalk.prepared_face import PreparedFace

    avatar, canvas = clip_avatar(), drawn(2)[0]
    tensors = unpack(avatar)
    face = np.random.default_rng(1).integers(0, 256, (256, 256, 3), np.uint8)
    y_plane, uv_plane = rgb_to_nv12(put_on_host(face, avatar, canvas.copy(), 1))
    patches = DevicePatches(tensors, torch.device("cpu"), 0)
    own = MuseTalkOwnPictures(avatar, tensors, "bt709")
    prepared = PreparedFace(avatar, tensors, "bt709", torch.zeros(1), own, patches)
    painting = prepared.painting(1, 0, 1.0)
    packed = painted_nv12(torch.from_numpy(face)[None], [painting]).numpy()[None]
    parts = prepared.painted_parts(np.array([1], np.int32), np.array([True]), packed)
    shown = Nv12Canvas(*rgb_to_nv12(canvas))
    paste(shown, parts.over(own).frame(0))
    for got, want in ((shown.y_plane, y_plane), (shown.uv_plane, uv_plane)):
        off = np.abs(got.astype(int) - want)
        assert off.max() <= 1 and (off > 0).mean() < 1e-4


def test_a_file_comes_out_whole_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that is timed, with stand-ins for the networks: every picture lies in the canvas once."""
    seen: list[int] = []

    def watched(canvas: Nv12Canvas, rect: Nv12Rect) -> None:
        paste(canvas, rect)
        seen.append(rect.over is not None)

    monkeypatch.setattr(end_to_end, "paste", watched)
    avatar, stamp = clip_avatar(), Stamp()
    pcm = news_speech()[: 100 * 640]
    spent = end_to_end.ours(pcm, avatar, Ears(), stamp, 8)  # type: ignore[arg-type]  # stands for the speech encoder
    assert spent.frames == 100 == len(seen) and spent.bypassed == 100 - sum(seen) == 100 - sum(stamp.batches)
    assert seen[:5] == [False] * 5 and sum(seen) > 50


def test_a_row_is_written_before_the_next_one_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def section(bench: bench_run.Bench) -> Iterator[BenchmarkRecord]:
        yield bench.record("first_ms", "ms", [1.0, 2.0])
        raise RuntimeError("the device is gone")

    def later(bench: bench_run.Bench) -> Iterator[BenchmarkRecord]:
        yield bench.record("later_ms", "ms", [3.0])

    monkeypatch.setattr(bench_run, "SECTIONS", {"broken": section, "later": later})
    info = RunInfo("cpu", "a processor", "2", "unknown", date(2026, 1, 1), "python")
    out = tmp_path / "musetalk.json"
    assert bench_run.measure(bench_run.Bench(info, Networks("cpu")), ["broken", "later"], out) == ["broken"]
    assert [row.case for row in read_records(out)] == ["first_ms", "later_ms"]
    assert "the device is gone" in capsys.readouterr().out
