"""Files of a Ditto avatar: whose motion they show, and the reference's motion of a whole clip that it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engines.ditto.config import DittoConfig
from engines.motion_layout import MOTION_DIM
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.config import FileMotion, SessionSettings
from pipeline.ditto.avatar_tensors import unpack
from pipeline.session.clip_motion import clip_motion, clip_start
from pipeline.stage_meter import StageMeter
from tests.support.ditto_avatar import still_avatar
from tests.support.ditto_motion import FormulaModel, speaker
from tests.support.whole_clip import WholeClipMotion
from tests.unit.pipeline.ditto.test_stages import LIVE, encode_all, rendered, stages, tone


@pytest.mark.parametrize("motion", ["offline", "compat"])
def test_files_show_the_whole_clip_s_motion(motion: FileMotion) -> None:
    avatar, pcm = still_avatar(), tone(640 * 83)
    who = unpack(avatar)

    async def run() -> tuple[F32, list[int], StageMeter]:
        made = stages(avatar)
        start = clip_start(avatar, 3, len(pcm), motion)
        assert start is not None
        meter = StageMeter(made)
        chunks = [chunk async for chunk in clip_motion(pcm, meter, start)]
        made.close()
        assert [chunk.hold is not None and bool(chunk.hold[0]) for chunk in chunks] == [True] + [False] * (
            len(chunks) - 1
        )
        assert [chunk.first_frame for chunk in chunks] == list(np.cumsum([0] + [len(c.motion) for c in chunks[:-1]]))
        return np.concatenate([chunk.motion for chunk in chunks]), [len(chunk.motion) for chunk in chunks], meter

    moved, counts, meter = asyncio.run(run())
    online = {"overlap_v2": 70, "fix_kp_cond": 1, "fix_kp_cond_dim": (0, 202)} if motion == "compat" else {}
    whole = WholeClipMotion(encode_all, FormulaModel(), 3, DittoConfig(**online), who.blink_gaps)
    expected = whole.offline(pcm, who.speaker, 3) if motion == "offline" else whole.compat(pcm, who.speaker, 3)
    np.testing.assert_array_equal(moved, expected)
    assert meter.calls["motion_diffusion"] == meter.calls["audio_features"] == 2 and sum(counts) == 83


def test_files_are_offline_unless_the_operator_says_otherwise() -> None:
    avatar, pcm = still_avatar(), tone(640 * 12)
    by_default = rendered(avatar, pcm, SessionSettings())
    np.testing.assert_array_equal(by_default, rendered(avatar, pcm, SessionSettings(file_motion="offline")))
    assert (by_default != rendered(avatar, pcm, LIVE)).any()
    mini = replace(avatar, family="mini")
    assert clip_start(mini, 0, 640, "auto") is None and clip_start(mini, 0, 640, "low_latency") is None
    with pytest.raises(InvalidInputError, match="file_motion.*mini"):
        clip_start(mini, 0, 640, "offline")


def whole_clip(model: FormulaModel | None = None, **config: Any) -> WholeClipMotion:
    return WholeClipMotion(encode_all, model or FormulaModel(), 3, DittoConfig(**config))


@pytest.mark.parametrize("samples", [1, 640 * 9, 640 * 30 + 1, 640 * 95])
def test_whole_clips_have_the_length_of_their_audio(samples: int) -> None:
    frames = -(-samples // 640)
    pcm, who = tone(samples), speaker()
    assert whole_clip().offline(pcm, who, 1).shape == (frames, MOTION_DIM)
    online = {"overlap_v2": 70, "fix_kp_cond": 1, "fix_kp_cond_dim": (0, 202)}
    assert whole_clip(**online).compat(pcm, who, 1).shape == (frames, MOTION_DIM)


def test_whole_clips_start_at_the_source_and_depend_on_seed_and_speech() -> None:
    pcm, who = tone(640 * 40), speaker()
    made = whole_clip().offline(pcm, who, 1)
    assert (made[0] == 0).all() and np.isfinite(made).all()
    np.testing.assert_array_equal(made, whole_clip().offline(pcm, who, 1))
    assert (made != whole_clip().offline(pcm, who, 2)).any()
    assert (made != whole_clip().offline(pcm * 0.5, who, 1)).any()


def test_whole_clips_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="audio"):
        whole_clip().offline(np.zeros(0, np.float32), speaker(), 1)
    with pytest.raises(InvalidInputError, match="overlap_v2"):
        whole_clip().compat(tone(6400), speaker(), 1)
