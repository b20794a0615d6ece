"""A command that was lent a machine ends in time, whatever hangs."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest

from benchmarks.core.time_budget import FORCED_EXIT, RESERVE_S, OutOfTimeError, TimeBudget
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT

HANGS = """
import subprocess, sys, threading
from benchmarks.core.time_budget import ended_by_force
subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
with ended_by_force(0.2):
    threading.Event().wait()
"""


def test_what_would_not_end_in_time_is_refused() -> None:
    clock = ManualClock(5.0)
    budget = TimeBudget(100.0, clock)
    budget.need(100.0 - RESERVE_S, "this")
    clock.now += 50.0
    with pytest.raises(OutOfTimeError, match="that takes 40 s, 30 s are left"):
        budget.need(40.0, "that")
    assert TimeBudget(None, clock).left_s() == math.inf


def test_a_command_that_hangs_ends_with_all_that_it_started() -> None:
    """Its child holds the pipe for as long as it lives, and would hang this test."""
    run = subprocess.run(
        [sys.executable, "-c", HANGS],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == FORCED_EXIT, run.stderr
