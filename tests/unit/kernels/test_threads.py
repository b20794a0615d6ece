"""Bounds on threads of the libraries that compute."""

from __future__ import annotations

import subprocess
import sys

import cv2
import pytest
import torch

from kernels.threads import use_threads

LATER = """
import sys
from kernels.threads import use_threads
use_threads(3)
assert "cv2" not in sys.modules
import cv2, torch
print(torch.get_num_threads(), cv2.getNumThreads())
"""


def test_libraries_that_are_loaded_are_bounded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENCV_FOR_THREADS_NUM", raising=False)
    before = torch.get_num_threads(), cv2.getNumThreads()
    try:
        use_threads(1)
        assert (torch.get_num_threads(), cv2.getNumThreads()) == (1, 1)
    finally:
        use_threads(before[0])
        cv2.setNumThreads(before[1])


def test_opencv_is_bounded_when_it_is_loaded_later() -> None:
    found = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.split() == ["3", "3"]
