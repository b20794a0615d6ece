"""Media time: integer counts that follow from the number of audio samples, the master clock of a session."""

from __future__ import annotations

from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ

SUPPORTED_FPS = (25, 50)


def frame_count(samples: int, fps: int) -> int:
    """Video frames of a clip: ceil(samples * fps / 16000)."""
    return -(-samples * fps // SAMPLE_RATE_HZ)


def motion_frame_count(samples: int) -> int:
    """Frames of motion (25 per second) of a clip."""
    return frame_count(samples, MOTION_FPS)
