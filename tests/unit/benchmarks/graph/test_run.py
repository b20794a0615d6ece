"""The parts of the graph benchmark that can be wrong without a cluster: memory sums, first pictures, extra arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import main_job
from benchmarks.core.process_memory import PeakMemory, descendants, pss_bytes
from benchmarks.graph.run import decodes, first_picture_s, speech
from kernels.errors import LiveAnchorError
from pipeline.config import EncoderSettings
from pipeline.media.audio_in import AudioTrack
from pipeline.media.encoder import VideoFormat
from pipeline.media.fragmented_mp4 import FragmentedMp4Writer
from pipeline.types import Nv12Canvas
from serve_app.cli.app import app

EATER = "import sys; block = bytearray(60 * 2**20); print('ready', flush=True); sys.stdin.read()"


def write_process(proc: Path, pid: int, parent: int, name: str, pss_kib: int) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0")
    (proc / str(pid) / "smaps_rollup").write_text(f"Rss: 999 kB\nPss: {pss_kib} kB\nPss_Anon: 7 kB\n")


def test_the_tree_below_a_process_is_found_whatever_the_names(tmp_path: Path) -> None:
    write_process(tmp_path, 10, 1, "bench", 1)
    write_process(tmp_path, 11, 10, "ray::Renderer (x) 3", 2)
    write_process(tmp_path, 12, 11, "worker", 4)
    write_process(tmp_path, 13, 1, "other", 8)
    assert sorted(descendants(10, tmp_path)) == [11, 12]
    assert sum(pss_bytes(pid, tmp_path) for pid in descendants(10, tmp_path)) == 6 * 1024
    assert pss_bytes(99, tmp_path) == 0


def test_a_child_s_memory_is_seen() -> None:
    with PeakMemory(os.getpid()) as memory:
        child = subprocess.Popen([sys.executable, "-c", EATER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        memory._sample()
        child.communicate()
    assert memory.peak_bytes > 60 * 2**20


def test_a_stream_is_timed_by_its_first_picture() -> None:
    canvas = Nv12Canvas(np.full((64, 64), 90, np.uint8), np.full((32, 64), 128, np.uint8))
    voice = AudioTrack(np.zeros((16_000, 1), np.float32), 16_000)
    writer = FragmentedMp4Writer(VideoFormat(64, 64, 25), voice, EncoderSettings())
    data = b"".join(writer.write(canvas) for _ in range(25)) + writer.finish()
    assert decodes(data) and not decodes(data[:100])
    assert first_picture_s([(0.1, data[:100]), (0.2, data[100:]), (0.3, b"")]) == 0.2
    with pytest.raises(LiveAnchorError, match="never decoded"):
        first_picture_s([(0.1, b"nothing of the kind")])


def test_speech_has_the_asked_length() -> None:
    assert len(speech(10.0)) == 160_000 and np.abs(speech(10.0)).max() > 0.1


def test_bench_hands_on_arguments_and_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def fake(arguments: list[str]) -> int:
        seen.append(arguments)
        return 2

    monkeypatch.setattr(main_job, "main", fake)
    assert CliRunner().invoke(app, ["bench", "main_job", "--", "--quick", "--out", "x.json"]).exit_code == 2
    assert seen == [["--quick", "--out", "x.json"]]
