"""Three minutes of the soak: no video is lost, and what it measures is measured."""

from __future__ import annotations

import pytest

from benchmarks.core.run_info import describe_run
from benchmarks.soak.run import records_of, soak

pytestmark = pytest.mark.ray


@pytest.mark.nightly("three minutes of load and kills; an hour of it is a benchmark")
def test_three_minutes_of_everything_lose_no_video() -> None:
    found = soak(3.0, seed=1, fault_every_s=40.0)
    counts = found.counts
    assert counts["videos_lost"] == 0 and counts["videos_made"] > 0, counts
    assert counts["stages_killed"] + counts["hosts_killed"] > 0 and counts["sessions_held"] > 0, counts
    rows = {one.case: one.value for one in records_of(found, describe_run("a test"))}
    assert abs(rows["soak_av_drift_ms_10min"]) < 200 and rows["soak_fd_growth"] < 500, rows
