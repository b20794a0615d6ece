"""One set of stages on every GPU: at a cold start, after deaths in any order, and while the number of sets changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT


@pytest.mark.nightly(
    "minutes of starting and killing processes; test_shares shows in every run that no stage waits for room"
)
@pytest.mark.parametrize("gpus", [2, 3, 4])
def test_every_gpu_ends_with_one_of_each_stage(gpus: int, environment: None) -> None:
    """In a process of its own: a process can be connected to one cluster only."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.ray.sets_probe", str(gpus)],
        cwd=ROOT,
        env=os.environ | {"RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "0.5"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["gpus"] == [1.0] * gpus and found["nodes"] == gpus
    assert found["rounds"] >= 6
    assert found["mixed"] == [], "a node held two of a stage meanwhile"
