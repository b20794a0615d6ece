"""What a replica's start took, phase by phase."""

from __future__ import annotations

from pathlib import Path

import structlog

from deployments.graph.start_up import StartUp, process_age_s
from tests.support.manual_clock import ManualClock


def test_one_line_says_what_took_the_time() -> None:
    clock = ManualClock(50.0)
    start = StartUp("renderer", age_s=lambda: 4.0, clock=clock, wall=lambda: 1000.0)
    for phase, seconds in (("load", 3.0), ("probe", 0.5)):
        clock.now += seconds
        start.done(phase)
    with structlog.testing.capture_logs() as logs:
        start.ready()
    [line] = logs
    assert line["event"] == "replica_ready" and line["part"] == "renderer" and line["began_at"] == 996.0
    assert (line["imports_s"], line["load_s"], line["probe_s"], line["all_s"]) == (4.0, 3.0, 0.5, 7.5)


def test_the_kernel_knows_when_a_process_began(tmp_path: Path) -> None:
    assert 0.0 < process_age_s() < 1e6
    assert process_age_s(tmp_path / "none") == 0.0
    odd = tmp_path / "stat"
    odd.write_text("1 (a) b) S")
    assert process_age_s(odd) == 0.0
