"""What a comparison of two videos says, and how it is written as JSON."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from pipeline.media.compare.mouth_box import MouthBox
from pipeline.media.compare.spikes import Spike


@dataclass(frozen=True)
class VideoFacts:
    """What a file says about itself, and how many pictures really came out.

    Attributes:
        width: Pixels.
        height: Pixels.
        fps: Average frames per second.
        frames: Decoded pictures.
        colour: `bt709`, `bt601`, `untagged`, or the matrix code of ITU-T H.273 as text.
        full_range: Whether the pictures claim full instead of limited range.
    """

    width: int
    height: int
    fps: float
    frames: int
    colour: str
    full_range: bool


@dataclass(frozen=True)
class VideoComparison:
    """What `compare_videos` found. Lists have one number per compared frame unless said otherwise.

    Attributes:
        summary: One line for a person.
        identical: Same number of frames, same tags, and every picture equal, byte for byte.
        first: Facts of the first video.
        second: Facts of the second video.
        frames_compared: Frames that both have.
        mean_abs_diff: Mean absolute luma difference.
        mean_abs_diff_mean: Over all frames.
        mean_abs_diff_max: The difference of the worst frame.
        mean_abs_diff_max_frame: Which one that is.
        psnr_db: Pooled over all frames; None when nothing differs.
        psnr_worst_db: The ratio of the worst frame; None when nothing differs.
        psnr_worst_frame: Which one that is.
        motion_first: How far each frame of the first video lies from the one before, in luma levels
            (`frame_spikes.busiest_difference`); 0 for the first frame. One number per frame of that video.
        motion_second: The same of the second.
        spikes_first: Frames that differ from the one before far more than their neighbourhood does.
        spikes_second: The same of the second video.
        spikes_only_first: Jumps that the second video does not make at that moment.
        spikes_only_second: Jumps that the first does not make at that moment: what an upgrade brought in.
        mouth_box: Where dark pixels were counted; None when nothing moves and no box was given.
        dark_level: Luma below which a pixel counts as dark.
        dark_pixels_first: Dark pixels inside the box.
        dark_pixels_second: The same of the second video.
        dark_pixels_mean_first: Over all frames.
        dark_pixels_mean_second: Over all frames.
        dark_pixels_max_diff: Largest difference between the two.
        dark_pixels_max_diff_frame: Where that is.
    """

    summary: str
    identical: bool
    first: VideoFacts
    second: VideoFacts
    frames_compared: int
    mean_abs_diff: list[float]
    mean_abs_diff_mean: float
    mean_abs_diff_max: float
    mean_abs_diff_max_frame: int
    psnr_db: float | None
    psnr_worst_db: float | None
    psnr_worst_frame: int
    motion_first: list[float]
    motion_second: list[float]
    spikes_first: list[Spike]
    spikes_second: list[Spike]
    spikes_only_first: list[Spike]
    spikes_only_second: list[Spike]
    mouth_box: MouthBox | None
    dark_level: int
    dark_pixels_first: list[int]
    dark_pixels_second: list[int]
    dark_pixels_mean_first: float
    dark_pixels_mean_second: float
    dark_pixels_max_diff: int
    dark_pixels_max_diff_frame: int

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values for `json.dumps`; floats carry five digits, numbers that do not exist are None."""
        return {name: _plain(value) for name, value in dataclasses.asdict(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 5) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
