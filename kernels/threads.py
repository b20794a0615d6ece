"""How many threads the libraries that compute may use in this process."""

from __future__ import annotations

import os
import sys

import torch


def use_threads(count: int) -> None:
    """Bound torch's and OpenCV's threads, whether OpenCV is loaded already or only later.

    OpenCV's own pool waits actively for its next job: where other processes run it costs more CPU time than it saves.

    Args:
        count: Threads, at least 1.
    """
    torch.set_num_threads(count)
    os.environ["OPENCV_FOR_THREADS_NUM"] = str(count)  # OpenCV reads it when it is loaded
    if (opencv := sys.modules.get("cv2")) is not None:
        opencv.setNumThreads(count)
