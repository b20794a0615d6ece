"""The stages of `mini` together: on this CPU with the shipped weights, and on a GPU where there is one."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from engines.motion_layout import EXP
from kernels.arrays import F32
from pipeline.mini.avatar_tensors import PERSON
from pipeline.mini.load import load_speech_stages
from pipeline.mini.motion_diffusion import initial_carry
from pipeline.mini.presenter import default_avatar
from pipeline.mini.renderer import Renderer
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, MotionChunk, Nv12RectBatch

FRAMES = 8


@pytest.fixture(scope="module")
def avatar() -> Avatar:
    return default_avatar()


def syllables(seconds: float) -> F32:
    t = np.arange(round(seconds * 16_000)) / 16_000
    voice = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 12))
    return (0.15 * voice * np.clip(np.sin(2 * np.pi * 3 * t), 0, 1)).astype(np.float32)


def speak(device: str, pcm: F32) -> F32:
    audio, motion = load_speech_stages(device)
    rows, _ = audio.step(pcm, audio.initial_carry(), final=True)
    chunk, _ = motion.step(rows, initial_carry(3, np.zeros((1, 265), np.float32)), final=True)
    return chunk.motion


def draw(device: str, avatar: Avatar, motion: F32, fps: int = 25) -> Nv12RectBatch:
    renderer = Renderer(lambda avatar_id: avatar, device)
    return renderer.render(RenderRequest(avatar.avatar_id, MotionChunk(motion, 0), None, fps, "bt709"))


def test_speech_moves_the_drawn_mouth_and_nothing_far_from_the_presenter(avatar: Avatar) -> None:
    motion = speak("cpu", syllables(1.0))
    assert motion.shape == (25, 265) and np.ptp(motion[:, EXP]) > 0.05
    batch = draw("cpu", avatar, motion)
    assert len(batch) == 25 and batch.y_planes.shape[1:] == (avatar.rect.h, avatar.rect.w)
    steps = np.abs(np.diff(batch.y_planes.astype(int), axis=0)).max(axis=0)
    assert steps.max() > 40
    assert max(steps[0].max(), steps[-1].max()) == 0, "the rectangle ends where nothing moves"
    person = np.asarray(avatar.tensors[PERSON], np.uint8)
    around = cv2.dilate((person >= 8).astype(np.uint8), np.ones((65, 65), np.uint8))
    assert (around == 0).sum() > 10_000 and steps[around == 0].max() <= 1


def test_fifty_frames_hold_the_twenty_five_between_them(avatar: Avatar) -> None:
    motion = speak("cpu", syllables(0.32))
    single, double = draw("cpu", avatar, motion), draw("cpu", avatar, motion, fps=50)
    assert len(double) == 2 * len(single)
    np.testing.assert_array_equal(double.y_planes[0::2], single.y_planes)


@pytest.mark.gpu
def test_motion_on_a_gpu_is_that_of_the_cpu() -> None:
    pcm = syllables(2.0)
    here, there = speak("cpu", pcm), speak("cuda", pcm)
    assert np.abs(here[:, EXP] - there[:, EXP]).max() < 2e-3


@pytest.mark.gpu
def test_pictures_on_a_gpu_are_those_of_the_cpu(avatar: Avatar) -> None:
    motion = speak("cpu", syllables(0.32))[:FRAMES]
    here, there = draw("cpu", avatar, motion), draw("cuda", avatar, motion)
    for one, two in ((here.y_planes, there.y_planes), (here.uv_planes, there.uv_planes)):
        error = np.abs(one.astype(int) - two)
        assert np.percentile(error, 99.9) <= 2 and error.mean() < 0.2


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["4.6", "4.9", "4.25"])
def test_rife_on_a_gpu_is_that_of_the_cpu(version: str) -> None:
    from engines.networks import build

    net = build(f"rife/{version}")
    frames = torch.rand(2, 3, 96, 128)
    with torch.inference_mode():
        here = net(frames[:1], frames[1:], 0.5)
        there = net.cuda()(frames[:1].cuda(), frames[1:].cuda(), 0.5).cpu()
    assert (here - there).abs().max() < 2e-2
