"""Waits for the GPU: asleep where there is one, refused without a fuss where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engines.runtimes import sleeping_waits
from engines.runtimes.sleeping_waits import wait_asleep

SPENT = """
import time, torch
from engines.runtimes.sleeping_waits import wait_asleep
assert {asleep} is False or wait_asleep()
torch.cuda.init()
torch.cuda._sleep(1000); torch.cuda.synchronize()
used, began = time.thread_time(), time.perf_counter()
torch.cuda._sleep(2_000_000_000); torch.cuda.synchronize()
print((time.thread_time() - used) / (time.perf_counter() - began))
"""


def test_without_a_driver_nothing_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(sleeping_waits.ctypes, "CDLL", missing)
    assert wait_asleep() is False


@pytest.mark.parametrize("refuses", ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxSetFlags_v2"])
def test_a_driver_that_refuses_is_believed(monkeypatch: pytest.MonkeyPatch, refuses: str) -> None:
    class Driver:
        def __getattr__(self, name: str) -> object:
            return lambda *args: 100 if name == refuses else 0

    monkeypatch.setattr(sleeping_waits.ctypes, "CDLL", lambda name: Driver())
    assert wait_asleep() is False


@pytest.mark.gpu
def test_a_thread_that_waits_uses_no_processor() -> None:
    def share(asleep: bool) -> float:
        command = [sys.executable, "-c", SPENT.format(asleep=asleep)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert share(True) < 0.2 < share(False)
