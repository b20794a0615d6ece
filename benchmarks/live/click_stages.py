"""Stages of a face that flashes where its speech clicks, for measuring lips against voice through a whole session.

The flash is made of the samples that the stages are given, so whatever a session or its transport does to either is seen.
A picture lasts 40 ms and a click hardly one; so the picture says at which sample of its frame the click was, to the sample.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.live.stamped_scene import CLICK_LEVEL, CLICK_SAMPLES, FACE_SIDE, StampedScene
from engines.motion_layout import EXP, MOTION_DIM
from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.mini.motion_diffusion import MotionCarry
from pipeline.mini.registration import make_avatar
from pipeline.stages import Carry, CropsInWork, RenderRequest, RifeRequest, StageInfo
from pipeline.types import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, Avatar, FaceRect, FeatureRows, MotionChunk, Nv12RectBatch

CLICKS_APART_S: Final = 1.0
TONE_LEVEL: Final = 0.03
"""A steady tone under the clicks counts as speech, so that the stages are asked all the time."""
_LOUD: Final = CLICK_LEVEL / 4
_MARK: Final = EXP.start
_MARKED_FROM: Final = 1000.0
"""Idle motion never comes near this."""
_ROWS_PER_FRAME: Final = 2


class ClickStages:
    """Implements `pipeline.stages.Stages` for pictures of 512 x 512; 25 frames/s only."""

    info = StageInfo("click", 8, 640, 1640, 25, True, hop_choices=(4,))

    def __init__(self) -> None:
        self._scene = StampedScene(FACE_SIDE, FACE_SIDE, 25)

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """Per frame: 1 + the sample at which it clicks, 0 where it does not."""
        end = len(window) - self.info.lookahead_samples
        frames = np.abs(window[self.info.context_samples : end].reshape(-1, SAMPLES_PER_FRAME))
        place = np.where(frames.max(axis=1) > _LOUD, frames.argmax(axis=1) + 1, 0).astype(np.float32)
        return FeatureRows(np.repeat(place[:, None], _ROWS_PER_FRAME, axis=0), 50, first_row)

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """The places of the clicks, as motion."""
        if not isinstance(carry, MotionCarry):
            raise LiveAnchorError("these stages draw avatars of the family mini")
        place = rows.rows[::_ROWS_PER_FRAME, 0]
        first = rows.first_row // _ROWS_PER_FRAME
        motion = np.zeros((len(place), MOTION_DIM), np.float32)
        motion[:, _MARK] = np.where(place > 0, _MARKED_FROM + place, 0.0)
        return MotionChunk(motion, first), replace(carry, next_frame=first + len(place))

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """A flash where a frame clicks, stamped with the sample."""
        marks = request.motion.motion[:, _MARK] - _MARKED_FROM
        drawn = [
            self._scene.picture(request.motion.first_frame + i, max(round(float(mark)) - 1, 0), flash=bool(mark > 0))
            for i, mark in enumerate(marks)
        ]
        rect = FaceRect(0, 0, FACE_SIDE, FACE_SIDE)
        return Nv12RectBatch(rect, np.stack([one.y_plane for one in drawn]), np.stack([one.uv_plane for one in drawn]))

    def crops(self, request: RenderRequest) -> CropsInWork:
        """Never asked for."""
        raise LiveAnchorError("these stages draw 25 frames/s")

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """Never asked for."""
        raise LiveAnchorError("these stages draw 25 frames/s")


def grey_card() -> Avatar:
    """An avatar of the right size; its landmarks are a mere ring, because nothing reads them."""
    angles = np.linspace(0, 2 * np.pi, 468, endpoint=False)
    ring = np.stack([256 + 96 * np.cos(angles), 240 + 120 * np.sin(angles), np.zeros(468)], axis=1)
    return make_avatar(np.full((FACE_SIDE, FACE_SIDE, 3), 110, np.uint8), ring.astype(np.float32), "Grey card")


def clicking_voice(seconds: float) -> F32:
    """A soft tone with a click every second, float32 (n,), 16 kHz: what the microphone says."""
    places = np.arange(round(seconds * SAMPLE_RATE_HZ))
    voice: F32 = (TONE_LEVEL * np.sin(2 * np.pi * 200 / SAMPLE_RATE_HZ * places)).astype(np.float32)
    for start in range(SAMPLE_RATE_HZ // 2, len(voice), round(CLICKS_APART_S * SAMPLE_RATE_HZ)):
        voice[start : start + CLICK_SAMPLES] = CLICK_LEVEL
    return voice
