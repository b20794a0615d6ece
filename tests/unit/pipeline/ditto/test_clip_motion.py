"""Motion of Ditto files call by call equals the motion of the whole clip at once, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.ditto.formula import FILL, SALT
from engines.ditto.config import DittoConfig
from engines.motion_layout import MOTION_DIM
from kernels.arrays import F32
from kernels.errors import LiveAnchorError, ShapeError
from pipeline.ditto.audio_features import DittoAudioFeatures, silence_rows
from pipeline.ditto.clip_motion import (
    ClipMode,
    ClipSettings,
    DittoClipCarry,
    DittoClipMotion,
    lead_samples,
    rows_wanted,
)
from pipeline.ditto.condition import emotion_sequence
from pipeline.ditto.motion_windows import WindowSettings
from pipeline.ditto.speaker import Speaker
from pipeline.stages import CarryError
from pipeline.types import FeatureRows
from tests.support.ditto_motion import FormulaModel, speaker
from tests.support.whole_clip import WholeClipMotion
from tests.unit.pipeline.ditto.test_stages import encode_all

ONLINE: dict[str, Any] = {"overlap_v2": 70, "fix_kp_cond": 1, "fix_kp_cond_dim": (0, 202)}
LIMITS = np.stack([np.full(MOTION_DIM, -0.8), np.full(MOTION_DIM, 0.9)]).repeat(2, axis=0).astype(np.float32)
CASES: list[tuple[ClipMode, dict[str, Any]]] = [
    ("offline", {}),
    ("offline", {"smo_k_d": 1, "fix_kp_cond": 2, "emo": [[4], [3, 4], [6]]}),
    ("offline", {"smo_k_d": 5, "fix_kp_cond": 1, "fix_kp_cond_dim": (0, 202), "overlap_v2": 30}),
    ("offline", {"v_min_max_for_clip": LIMITS}),
    ("compat", ONLINE),
    ("compat", {**ONLINE, "overlap_v2": 75, "v_min_max_for_clip": LIMITS}),
    ("compat", {"overlap_v2": 70}),
    ("compat", {**ONLINE, "overlap_v2": 72}),
    ("compat", {**ONLINE, "overlap_v2": 40, "smo_k_d": 5}),
]


def stage(mode: ClipMode, config: DittoConfig, model: FormulaModel | None = None, steps: int = 3) -> DittoClipMotion:
    windows = WindowSettings(
        overlap=config.overlap_v2,
        online=mode == "compat",
        reset_every=config.fix_kp_cond,
        reset_keeps=config.fix_kp_cond_dim or (0, 0),
        smooth_width=config.smo_k_d,
        limits=config.limits,
    )
    settings = ClipSettings(windows, emotion_sequence(config.emo), steps, "v1")
    return DittoClipMotion(mode, model or FormulaModel(), settings, silence_rows(encode_all))


def begin(mode: ClipMode, samples: int, who: Speaker, seed: int = 3) -> DittoClipCarry:
    return DittoClipCarry(who, seed, mode, -(-samples // 640), rows_wanted(mode, samples))


def speech(samples: int) -> F32:
    return (0.3 * np.sin(np.arange(samples) * 0.05) * np.sin(np.arange(samples) * 0.0007)).astype(np.float32)


def rows_of(mode: ClipMode, pcm: F32, first: int, frames: int) -> FeatureRows:
    """As a session cuts windows."""
    audio = DittoAudioFeatures(encode_all, frames)
    padded = np.concatenate([np.zeros(lead_samples(mode), np.float32), pcm, np.zeros(60_000, np.float32)])
    return audio.window(padded[first * 640 : first * 640 + audio.window_samples], 2 * first)


def run(motion: DittoClipMotion, mode: ClipMode, pcm: F32, who: Speaker, step: int) -> tuple[F32, list[int]]:
    carry, made = begin(mode, len(pcm), who), []
    for first in range(0, carry.wanted, step):
        frames = min(step, -(-(carry.wanted - first) // 5) * 5)
        [result] = motion.steps([(rows_of(mode, pcm, first, frames), carry)])
        assert isinstance(result, tuple), result
        chunk, carry = result
        assert chunk.first_frame == sum(map(len, made))
        made.append(chunk.motion)
    return np.concatenate(made), [len(part) for part in made]


@pytest.mark.parametrize(("mode", "config"), CASES, ids=str)
@pytest.mark.parametrize("samples", [1, 640 * 5, 640 * 80, 640 * 151 - 1])
def test_call_by_call_is_the_whole_clip(mode: ClipMode, config: dict[str, Any], samples: int) -> None:
    pcm, who, settings = speech(samples), speaker(blink=True, frames=4), DittoConfig(**config)
    whole = WholeClipMotion(encode_all, FormulaModel(), 3, settings)
    expected = whole.offline(pcm, who, 3) if mode == "offline" else whole.compat(pcm, who, 3)
    assert len(expected) == -(-samples // 640)
    for step in (5, 70):
        np.testing.assert_array_equal(run(stage(mode, settings), mode, pcm, who, step)[0], expected)


def test_frames_come_as_soon_as_nothing_changes_them() -> None:
    counts = run(stage("offline", DittoConfig()), "offline", speech(640 * 230), speaker(), 10)[1]
    assert counts[:8] == [0] * 7 + [69], "the first window is complete after 80 frames; ten are fused, one smooths"
    assert counts[8:15] == [0] * 6 + [70] and counts[-1] == 230 - 69 - 70 * 2 and sum(counts) == 230


def test_a_carry_stays_small_however_long_the_clip_is() -> None:
    motion, carry = stage("offline", DittoConfig()), begin("offline", 640 * 600, speaker())
    rows = FILL.normal("clip/rows", (1200, 1024), SALT, 0.5)
    for first in range(0, 600, 50):
        [result] = motion.steps([(FeatureRows(rows[2 * first : 2 * first + 100], 50, 2 * first), carry)])
        assert isinstance(result, tuple)
        carry = result[1]
        assert len(carry.rows) < 130 and len(carry.track.motion) <= 240
    assert carry.done and carry.next_frame == 600


def test_clips_share_network_calls_and_a_bad_one_fails_alone() -> None:
    model = FormulaModel()
    motion, who = stage("offline", DittoConfig(), model), speaker()
    pcms = [speech(640 * 30), speech(640 * 25)[::-1].copy()]
    items = [(rows_of("offline", pcm, 0, 30), begin("offline", len(pcm), who, seed)) for seed, pcm in enumerate(pcms)]
    bad = (FeatureRows(np.zeros((10, 99), np.float32), 50, 0), items[0][1])
    results = motion.steps([items[0], bad, items[1]])
    assert isinstance(results[1], ShapeError) and model.batches == [2]
    for (rows, carry), result in zip(items, (results[0], results[2]), strict=True):
        [alone] = stage("offline", DittoConfig()).steps([(rows, carry)])
        assert isinstance(result, tuple) and isinstance(alone, tuple)
        np.testing.assert_allclose(result[0].motion, alone[0].motion, rtol=1e-5, atol=1e-6)


def test_rows_that_do_not_continue_a_clip_are_refused() -> None:
    motion, who = stage("offline", DittoConfig()), speaker()
    fresh = begin("offline", 640 * 10, who)
    rows = rows_of("offline", speech(6400), 0, 10)

    def fault(rows: FeatureRows, carry: DittoClipCarry) -> LiveAnchorError:
        [result] = motion.steps([(rows, carry)])
        assert isinstance(result, LiveAnchorError)
        return result

    assert isinstance(fault(replace(rows, first_row=10), fresh), CarryError)
    assert isinstance(fault(rows, replace(fresh, family="ditto", version="v0")), CarryError)
    [result] = motion.steps([(rows, fresh)])
    assert isinstance(result, tuple)
    assert "finished" in str(fault(replace(rows, first_row=20), result[1]))
