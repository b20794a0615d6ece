"""Two live sessions over the real motion network under the formula: interleaved, alone, and batched."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from benchmarks.ditto.formula import FILL, SALT, filled
from engines.ditto.motion_sampler import MotionSampler
from engines.motion_layout import MOTION_DIM
from engines.networks.lmdm import Lmdm
from engines.runtimes.torch import TorchRuntime
from kernels.arrays import F32
from pipeline.ditto.condition import emotion_sequence
from pipeline.ditto.motion_diffusion import (
    DittoMotionCarry,
    DittoMotionDiffusion,
    LiveSettings,
    start_carry,
)
from pipeline.ditto.speaker import Speaker
from pipeline.stages import MotionItem
from pipeline.types import FeatureRows
from tests.golden.support import golden, normal

STEPS = 2
HOPS = 2
STILL = np.zeros((1, MOTION_DIM), np.float32)


@pytest.fixture
def stage(one_thread: None) -> Iterator[DittoMotionDiffusion]:
    lmdm = filled("lmdm")
    assert isinstance(lmdm, Lmdm)
    silence = FILL.normal("sessions/silence", (5, 1024), SALT, 0.5)
    settings = LiveSettings(emotion=emotion_sequence(4), steps=STEPS, reset_every=1, reset_keeps=(0, 202))
    yield DittoMotionDiffusion(TorchRuntime(MotionSampler(lmdm, STEPS)), settings, silence)


def begin(session: int) -> DittoMotionCarry:
    def draw(name: str, shape: tuple[int, ...]) -> F32:
        return FILL.normal(f"sessions/{session}/{name}", shape, SALT, 0.3)

    speaker = Speaker(
        source=draw("source", (MOTION_DIM,)),
        shape=draw("shape", (63,)),
        eye_open=draw("open", (1, 2)),
        eye_ball=draw("ball", (1, 6)),
        drive=np.ones(MOTION_DIM, np.float32),
        blink=np.zeros((0, 63), np.float32),
    )
    return start_carry(100 + session, STILL, speaker)


def rows(session: int, hop: int) -> FeatureRows:
    return FeatureRows(FILL.normal(f"sessions/{session}/rows/{hop}", (10, 1024), SALT, 0.5), 50, 10 * hop)


def alone(stage: DittoMotionDiffusion, session: int) -> F32:
    carry, made = begin(session), []
    for hop in range(HOPS):
        chunk, carry = stage.step(rows(session, hop), carry)
        made.append(chunk.motion)
    return np.concatenate(made)


def test_interleaved_sessions_equal_lone_ones_bit_for_bit_and_batched_ones_closely(stage: DittoMotionDiffusion) -> None:
    expected = [alone(stage, session) for session in (0, 1)]
    carries = [begin(0), begin(1)]
    interleaved: list[list[F32]] = [[], []]
    for hop in range(HOPS):
        for session in (1, 0):
            chunk, carries[session] = stage.step(rows(session, hop), carries[session])
            interleaved[session].append(chunk.motion)
    batched: list[list[F32]] = [[], []]
    carries = [begin(0), begin(1)]
    for hop in range(HOPS):
        results = stage.steps([MotionItem(rows(s, hop), carries[s]) for s in (0, 1)])
        for session, result in enumerate(results):
            assert isinstance(result, tuple)
            batched[session].append(result[0].motion)
            carries[session] = result[1]
    for session in (0, 1):
        np.testing.assert_array_equal(np.concatenate(interleaved[session]), expected[session])
        error = np.abs(np.concatenate(batched[session]) - expected[session]).max()
        assert error <= 1e-5 * np.abs(expected[session]).max(), error
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    assert torch.get_num_threads() == 1


def test_the_sampler_is_the_reference_s(one_thread: None) -> None:
    lmdm = filled("lmdm")
    assert isinstance(lmdm, Lmdm)
    noise = torch.stack([normal(f"ddim/10/randn/{k}", (1, 80, 265)) for k in range(10)], dim=1)
    cond_frame, cond = normal("ddim/cond_frame", (1, 265), 0.5), normal("ddim/cond", (1, 80, 1103), 0.5)
    with torch.inference_mode():
        x = MotionSampler(lmdm, 10)(cond_frame, cond, noise)
    np.testing.assert_allclose(x.numpy(), golden("ddim_10")["x"], atol=5e-4, rtol=0)
