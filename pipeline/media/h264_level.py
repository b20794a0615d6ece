"""The H.264 level that a stream needs, from Table A-1 of ITU-T H.264."""

from __future__ import annotations

from kernels.errors import InvalidInputError
from pipeline.media.encoder import VideoFormat

LEVELS: tuple[tuple[str, int, int, int], ...] = (
    ("1.0", 1_485, 99, 64),
    ("1.1", 3_000, 396, 192),
    ("1.2", 6_000, 396, 384),
    ("1.3", 11_880, 396, 768),
    ("2.0", 11_880, 396, 2_000),
    ("2.1", 19_800, 792, 4_000),
    ("2.2", 20_250, 1_620, 4_000),
    ("3.0", 40_500, 1_620, 10_000),
    ("3.1", 108_000, 3_600, 14_000),
    ("3.2", 216_000, 5_120, 20_000),
    ("4.0", 245_760, 8_192, 20_000),
    ("4.1", 245_760, 8_192, 50_000),
    ("4.2", 522_240, 8_704, 50_000),
    ("5.0", 589_824, 22_080, 135_000),
    ("5.1", 983_040, 36_864, 240_000),
    ("5.2", 2_073_600, 36_864, 240_000),
)
"""Name, macroblocks per second, macroblocks per frame, kbit/s (Baseline and Main profile)."""


def h264_level(video_format: VideoFormat, kbps: int = 0) -> str:
    """The lowest level that allows a stream.

    Args:
        video_format: Size and rate.
        kbps: Peak bit rate in kbit/s; 0 leaves it out of account.

    Returns:
        Such as `4.0` for 1080x1920 at 25 frames/s.

    Raises:
        InvalidInputError: No level allows it.
    """
    across, down = -(-video_format.width // 16), -(-video_format.height // 16)
    macroblocks = across * down
    for name, per_second, per_frame, level_kbps in LEVELS:
        # Neither side may exceed sqrt(8 * MaxFS) macroblocks (A.3.1, items f and g).
        fits = macroblocks <= per_frame and max(across, down) ** 2 <= 8 * per_frame
        if fits and macroblocks * video_format.rate <= per_second and kbps <= level_kbps:
            return name
    raise InvalidInputError(
        "video", f"{video_format.width}x{video_format.height} at {video_format.fps} fps", "what H.264 level 5.2 allows"
    )
