"""The renderer keeps, per avatar, what its runtime makes of the source alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.ditto.formula import filled
from engines.ditto.config import DittoConfig
from engines.motion_layout import MOTION_DIM
from pipeline.ditto.renderer import DittoEngines, DittoRenderer
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, MotionChunk
from tests.support.ditto_avatar import still_avatar, video_avatar


class CountingRuntime:
    """A `SourceRuntime`: a picture's shade is the sum of what its source frame contributes."""

    name, device = "counting", torch.device("cpu")

    def __init__(self) -> None:
        self.sources: list[int] = []
        self.draws: list[tuple[int, int]] = []

    def source(self, volume: Tensor) -> tuple[Tensor, ...]:
        self.sources.append(len(volume))
        return volume.float().mean(dim=(1, 2, 3, 4))[:, None], torch.ones(len(volume), 1)

    def draw(self, source: tuple[Tensor, ...], kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        self.draws.append((len(source[0]), len(kp_driving)))
        shade = (128 + 1000 * source[0] * source[1]).clamp(0, 255).to(torch.uint8)
        return shade[:, :, None, None].expand(len(kp_driving), 512, 512, 3).contiguous()

    def run(self, *inputs: Tensor) -> Tensor:
        raise AssertionError("the source's work would be done again")


def drawn(avatar: Avatar, frames: int, cache_bytes: int = 2**30) -> tuple[CountingRuntime, np.ndarray, DittoRenderer]:
    runtime = CountingRuntime()
    engines = DittoEngines(runtime, filled("stitch_network"), DittoConfig(), "0123456789abcdef", batch=2)
    made = DittoRenderer({avatar.avatar_id: avatar}.__getitem__, engines, cache_bytes)
    motion = np.zeros((frames, MOTION_DIM), np.float32)
    for first in (0, frames):
        crops = made.crops(RenderRequest(avatar.avatar_id, MotionChunk(motion, first), None, 25, "bt709"))
    return runtime, crops.crops, made


def test_a_picture_s_source_work_is_done_once_for_all_chunks() -> None:
    avatar = still_avatar()
    runtime, crops, made = drawn(avatar, 3)
    assert runtime.sources == [1]
    assert runtime.draws == [(1, 2), (1, 1)] * 2 and crops.shape == (3, 512, 512, 3)
    assert made.prepare(avatar.avatar_id, "bt709").resident is not None


@pytest.mark.parametrize(("cache_bytes", "sources"), [(2**30, [3]), (2**20, [2, 2, 2, 2])])
def test_a_video_s_frames_contribute_their_own(cache_bytes: int, sources: list[int]) -> None:
    """Kept where they fit the cache, else made for the frames at hand; the pictures are the same."""
    runtime, crops, _ = drawn(video_avatar(), 4, cache_bytes)
    assert runtime.sources == sources and runtime.draws == [(2, 2)] * 4
    _, kept, _ = drawn(video_avatar(), 4)
    np.testing.assert_array_equal(crops, kept)
