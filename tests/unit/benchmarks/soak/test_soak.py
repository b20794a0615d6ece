"""The soak's arithmetic and its eyes: slopes that a restart does not bend, processes that are counted, work that is told apart."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from benchmarks.core.run_info import RunInfo, describe_run
from benchmarks.live import rig
from benchmarks.soak import load as loads
from benchmarks.soak import watch as watches
from benchmarks.soak.growth import Sample, growth, per_hour, table, warm
from benchmarks.soak.load import Load
from benchmarks.soak.run import Soaked, records_of
from benchmarks.soak.watch import Watch, is_of_ray, sample, size_of
from kernels.errors import InvalidInputError, LiveAnchorError
from liveanchor.client import Client


def run_of(memory: list[float], every_s: float = 10.0) -> list[Sample]:
    return [Sample(every_s * at, value, 50, 200 + at // 100, 5.0, 9) for at, value in enumerate(memory)]


def test_a_slope_is_found_through_restarts_and_noise() -> None:
    draw = np.random.default_rng(4)
    memory = 900 + np.arange(360) * 10 / 3600 * 24 + draw.normal(0, 4, 360)
    memory[:90] -= np.linspace(400, 0, 90)  # caches fill
    for at in (120, 200, 290):
        memory[at : at + 6] -= 150  # a process was killed and comes back
    assert per_hour(run_of(list(memory)), lambda one: one.memory_mib) == pytest.approx(24, abs=3)
    assert abs(per_hour(run_of([900.0] * 360), lambda one: one.memory_mib)) < 1e-9


def test_growth_compares_the_ends_of_the_warm_part() -> None:
    samples = [Sample(float(at), 0.0, 0, 100 + at, 0.0, 1) for at in range(80)]
    assert [one.at_s for one in warm(samples)][0] == 20
    assert growth(samples, lambda one: one.descriptors) == 40
    with pytest.raises(InvalidInputError, match="samples"):
        warm(samples[:3])


def test_the_table_has_a_line_for_each_window() -> None:
    lines = table(run_of([100.0] * 180), 600.0).splitlines()
    assert len(lines) == 4 and lines[-1].split() == ["1200", "100", "50", "201", "5.0", "9"]


def test_rows_say_what_was_lost_and_what_drifted() -> None:
    run: RunInfo = describe_run("python -m benchmarks.soak --minutes 1")
    counts = Counter(videos_accepted=9, videos_lost=2, stages_killed=3, hosts_killed=1)
    rows = {
        one.case: one.value
        for one in records_of(Soaked(run_of([1.0] * 20), counts, {"drift_10min": -1.5, "n": 99}), run)
    }
    assert (rows["soak_videos_lost"], rows["soak_kills"], rows["soak_av_drift_ms_10min"]) == (2, 4, 1.5)
    assert rows["soak_rss_growth_mib_per_h"] == 0
    without = records_of(Soaked(run_of([1.0] * 20), counts, None), run)
    assert "soak_av_drift_ms_10min" not in {one.case for one in without}


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        ("ray::ServeReplica:liveanchor:Renderer", True),
        ("/x/site-packages/ray/core/src/ray/raylet/raylet --a", True),
        ("python -m benchmarks.live.client --url", False),
        ("", False),
    ],
)
def test_clients_that_measure_do_not_count(command: str, counts: bool) -> None:
    assert is_of_ray(command) is counts


def test_processes_below_this_one_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(bytes(3 * 2**20))
    code = "import sys, threading; f = open(sys.argv[1]); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "a"), "/ray/"], stdin=subprocess.PIPE)
    try:
        monkeypatch.setattr(watches, "is_of_ray", lambda command: str(tmp_path) in command)
        with Watch(tmp_path, lambda: 0.0, 0.01) as watch:
            pause = threading.Event()
            while not any(one.descriptors >= 4 for one in list(watch.samples)):
                assert child.poll() is None
                pause.wait(0.01)
        found = watch.samples[-1]
        assert (found.processes, found.threads, found.disk_mib) == (1, 1, 3.0) and found.memory_mib > 1
    finally:
        child.communicate()
    assert sample(1.0, tmp_path).processes == 0 and size_of(tmp_path) == 3 * 2**20


def test_videos_are_told_apart_by_how_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        name = request.url.path.split("/")[3]
        shown = {"id": name, "state": name, "progress": 0, "place": None, "error": None, "deleted": True}
        if request.url.path.endswith("/content"):
            return httpx.Response(
                200, content=b"" if name == "empty" else b"mp4", headers={"content-type": "video/mp4"}
            )
        if name == "gone":
            problem = {"code": "video_not_found", "detail": "gone"}
            return httpx.Response(404, json=problem, headers={"content-type": "application/problem+json"})
        return httpx.Response(200, json=shown | {"status": "failed" if name == "failed" else "completed"})

    load = Load("http://service", b"", tmp_path, tmp_path, 0, 60.0)
    with httpx.Client(transport=httpx.MockTransport(handle)) as http, Client("http://service", http=http) as client:
        ends = {name: load._one_video(client, name, cancelled=False) for name in ("good", "failed", "gone", "empty")}
        assert ends == {"good": "videos_made", "failed": "videos_lost", "gone": "videos_lost", "empty": "videos_lost"}
        assert load._one_video(client, "good", cancelled=True) == "videos_cancelled"


def test_a_part_of_the_load_that_breaks_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **more: Any) -> Any:
        raise RuntimeError("no such file")

    load = Load("http://127.0.0.1:9", b"", tmp_path, tmp_path, 0, 60.0)
    monkeypatch.setattr(loads, "ClientProcess", broken)
    monkeypatch.setattr(loads, "replica_pids", lambda name: [])
    with pytest.raises(LiveAnchorError, match="no such file"), load.running():
        assert load._stop.wait(60)


def test_a_service_that_does_not_answer_once_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([httpx.ReadTimeout("timed out"), 2, httpx.ConnectError("refused"), 0])

    def left(_: str) -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(rig, "sessions_left", left)
    rig.wait_until_free("http://127.0.0.1:1", timeout_s=60.0)
    assert next(answers, None) is None
