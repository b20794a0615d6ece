"""The renderer on CUDA in shared buckets: keypoints of the graph, pictures of sessions that are drawn alone, copies under load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from engines.ditto.config import DittoConfig
from engines.ditto.render_runtime import compiled_runtime
from engines.motion_layout import MOTION_DIM
from engines.runtimes.host_copies import Landing, to_device
from kernels.arrays import F32, U8
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.driven_keypoints import DrivenKeypoints, rest_rows
from pipeline.ditto.motion_stitch import FrameControl
from pipeline.ditto.renderer import DittoEngines, DittoRenderer
from pipeline.session.overlap import DrawOrder
from pipeline.stages import RenderRequest
from pipeline.types import CropBatch, MotionChunk, Nv12RectBatch
from tests.golden.support import FILL, SALT, filled
from tests.support.ditto_avatar import still_avatar, video_avatar

pytestmark = pytest.mark.gpu


def offsets(frames: int, salt: str) -> F32:
    return np.asarray(FILL.normal(f"overlap/{salt}", (frames, MOTION_DIM), SALT, 0.05), np.float32)


@pytest.fixture(scope="module")
def made() -> tuple[DittoRenderer, list[str]]:
    still, video = still_avatar(), video_avatar()
    avatars = [still, replace(still, avatar_id="f" * 32), video]
    runtime = compiled_runtime(filled.__wrapped__("warp_network"), filled.__wrapped__("decoder"), "cuda", (1, 2, 4, 8))
    engines = DittoEngines(runtime, filled("stitch_network"), DittoConfig(), "0123456789abcdef", batch=8)
    renderer = DittoRenderer({one.avatar_id: one for one in avatars}.__getitem__, engines)
    return renderer, [one.avatar_id for one in avatars]


def order(avatar_id: str, motion: F32, first: int, *, crops_only: bool = False) -> DrawOrder:
    return DrawOrder(RenderRequest(avatar_id, MotionChunk(motion, first), None, 25, "bt709"), crops_only)


def test_keypoints_of_the_graph_are_the_cpu_s(made: tuple[DittoRenderer, list[str]]) -> None:
    (renderer, ids), motion = made, offsets(13, "k")
    for avatar, name in ((still_avatar(), 0), (video_avatar(), 2)):
        face = renderer.prepare(ids[name], "bt709")
        got = renderer.keypoints(face, motion, 3)
        rest = rest_rows(unpack(avatar).source_motion(), drive_eye=name == 0)
        rows = rest[[0] * 13 if name == 0 else face.source_frames(3, 13)]
        with torch.inference_mode():
            expected = DrivenKeypoints(filled("stitch_network"), FrameControl())(
                torch.from_numpy(rows), torch.from_numpy(motion)
            )
        for ours, theirs in zip(got, expected, strict=True):
            assert (ours.cpu() - theirs).abs().max() <= 1e-4


def test_sessions_in_shared_buckets_get_the_pictures_that_they_get_alone(made: tuple[DittoRenderer, list[str]]) -> None:
    renderer, (first, second, video) = made
    asked = [order([first, second][i % 2], offsets(3 + i % 5, f"{i}"), i) for i in range(24)]
    asked += [order(video, offsets(5, "v"), 2, crops_only=True), order(video, offsets(3, "w"), 2)]
    alone = [renderer.alone(one) for one in asked]
    loop = renderer.overlapped()
    futures = [loop.submit(one) for one in asked]
    loop.close()
    got = [pictures(future.result(0)) for future in futures]
    expected = [pictures(one) for one in alone]
    for index, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        assert psnr_db(ours, theirs) >= 50.0, "fp16 rounds otherwise in another batch, no more"
        other = expected[index - 2] if 2 <= index < 24 else None  # the same face, another motion
        if other is not None:
            count = min(len(ours), len(other))
            assert psnr_db(ours[:count], other[:count]) < 45.0


def pictures(batch: Nv12RectBatch | CropBatch) -> U8:
    return batch.y_planes if isinstance(batch, Nv12RectBatch) else batch.crops


def psnr_db(ours: U8, theirs: U8) -> float:
    error = np.square(ours.astype(np.float64) - theirs).mean()
    return float(10 * np.log10(255.0**2 / max(error, 1e-9)))


def test_what_lands_is_what_was_queued_while_later_work_overwrites_nothing() -> None:
    device = torch.device("cuda")
    rows = [np.full((64, 1024), i, np.float32) for i in range(50)]
    landings = [Landing([to_device(one, device) * 2, to_device(one, device) + 1]) for one in rows]
    for value, landing in enumerate(landings):
        doubled, more = landing.wait()
        assert (doubled == 2 * value).all() and (more == value + 1).all()
