"""What MuseTalk's GPU rows are measured with: the speech, the reference's picture, and that rows outlive a failure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from benchmarks.core.record import BenchmarkRecord, read_records
from benchmarks.core.run_info import RunInfo
from benchmarks.musetalk import run as bench_run
from benchmarks.musetalk.end_to_end import put_on_host
from benchmarks.musetalk.networks import Networks
from benchmarks.musetalk.news_clip import FRAMES, QUIET, frame_rms, news_speech
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.musetalk.avatar_tensors import unpack
from tests.support.musetalk import clip_avatar, drawn


def test_the_speech_has_the_pauses_of_the_published_rule() -> None:
    pcm = news_speech()
    assert pcm.shape == (FRAMES * 640,) and 0.20 <= (frame_rms(pcm) < QUIET).mean() <= 0.25
    assert np.abs(pcm).max() > 0.5


def test_the_reference_s_picture_is_the_product_s() -> None:
    """Resize, blend and whole-frame conversion on the host, against the one pass."""
    import torch

    from kernels.nv12.painted import painted_nv12, split_nv12
    from pipeline.musetalk.device_patches import DevicePatches
    from pipeline.musetalk.prepared_face import PreparedFace

    avatar, canvas = clip_avatar(), drawn(2)[0]
    tensors, rect = unpack(avatar), avatar.rect
    face = np.random.default_rng(1).integers(0, 256, (256, 256, 3), np.uint8)
    y_plane, uv_plane = rgb_to_nv12(put_on_host(face, avatar, canvas.copy(), 1))
    patches = DevicePatches(tensors, torch.device("cpu"), 0)
    prepared = PreparedFace(avatar, tensors, "bt709", torch.zeros(1), None, patches)
    painting = prepared.painting(1, 0, 1.0)
    [planes] = split_nv12(painted_nv12(torch.from_numpy(face)[None], [painting]).numpy(), [painting.size])
    made = np.empty((rect.h, rect.w), np.uint8), np.empty((rect.h // 2, rect.w), np.uint8)
    prepared.put_picture(1, planes, *made)
    rows, chroma, columns = (
        slice(rect.y, rect.y + rect.h),
        slice(rect.y // 2, (rect.y + rect.h) // 2),
        slice(rect.x, rect.x + rect.w),
    )
    for got, want in ((made[0], y_plane[rows, columns]), (made[1], uv_plane[chroma, columns])):
        off = np.abs(got.astype(int) - want)
        assert off.max() <= 1 and (off > 0).mean() < 1e-4


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
