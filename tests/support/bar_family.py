"""A family of its own: a bar as high as the voice is loud. It has no motion stage: features go to the renderer.

Nothing outside this file knows it but a table or, as for an installed package, the entry point in `bar_package`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import torch

from engines.runtimes.kinds import RuntimeKind
from kernels.arrays import F32
from pipeline.avatars.arrays import check_array
from pipeline.avatars.bundle import check_avatar, content_id
from pipeline.avatars.portrait import PortraitLimits, decode_portrait
from pipeline.avatars.store import AvatarStore
from pipeline.config import RifeSettings
from pipeline.family import Family
from pipeline.presenter.avatar import keep_presenter
from pipeline.rife.local import LocalRife
from pipeline.session.stage_threads import StageThreads
from pipeline.session.tail import DEFAULT_CACHE_BYTES, Placed, StillTail, crop_batch
from pipeline.stages import AudioFacts, Carry, EncoderShape, MotionFacts, RenderRequest, StageInfo
from pipeline.types import CROP_SIZE, Avatar, CropBatch, FaceRect, FeatureRows, MotionChunk, Nv12RectBatch

HOP: Final = 4
LOOKAHEAD: Final = 640
SIDE: Final = 64


@dataclass(frozen=True)
class BarCarry:
    """Where the bar is; there is nothing else to remember."""

    next_frame: int
    epoch: int
    family: str = "bar"
    version: str = "1"


class BarEars:
    """Stage `audio_features`: a row is the loudness of 20 ms."""

    shape = EncoderShape(1, 0, LOOKAHEAD, "bar", "1")
    window_samples = HOP * 640 + LOOKAHEAD

    def window(self, samples: F32, first_row: int, /) -> FeatureRows:
        own = samples[: len(samples) - LOOKAHEAD].reshape(-1, 320)
        return FeatureRows(np.sqrt((own**2).mean(axis=1, keepdims=True)), 50, first_row)

    def windows(self, items: Sequence[tuple[F32, int]]) -> list[FeatureRows]:
        return [self.window(samples, first_row) for samples, first_row in items]


class BarPainter:
    """Stage `renderer`: white up to the bar's height, black above."""

    def __init__(self, load_avatar: Callable[[str], Avatar]) -> None:
        self._tail = StillTail(load_avatar)

    def _draw(self, motion: F32) -> torch.Tensor:
        height = (np.clip(motion[:, 0], 0.0, 1.0) * CROP_SIZE).astype(int)
        lit = np.arange(CROP_SIZE)[None] >= CROP_SIZE - height[:, None]
        return torch.from_numpy(lit.astype(np.uint8) * 255)[:, :, None, None].expand(-1, -1, CROP_SIZE, 3).contiguous()

    def render(self, request: RenderRequest) -> Nv12RectBatch:
        crops = self._draw(request.motion.motion)
        frames = [Placed(index, Fraction(index)) for index in range(len(crops))]
        return self._tail.compose(request.avatar_id, request.colour, crops, frames)

    def crops(self, request: RenderRequest) -> CropBatch:
        return crop_batch(self._draw(request.motion.motion).numpy(), request)

    def warm_avatars(self) -> list[str]:
        return []


class BarBehaviour:
    """A silent bar lies low."""

    template_frames = 0
    ends_twice = True
    mouth = slice(0, 1)

    def rest(self) -> F32:
        return np.zeros(1, np.float32)

    def idle(self, seed: int, first_frame: int, n_frames: int) -> F32:
        return np.zeros((max(n_frames, 0), 1), np.float32)

    def loop(self, seed: int, frames: int) -> F32:
        return self.idle(seed, 0, frames)

    def start(
        self, seed: int, history: F32, first_frame: int, epoch: int, prepared: Carry | None, hop_frames: int = 0
    ) -> Carry:
        return BarCarry(first_frame, epoch)


class BarMaker:
    """Any picture will do: a square of it goes dark and shows the bar."""

    def from_file(self, source: bytes | Path, name: str, limits: PortraitLimits) -> Avatar:
        data = source if isinstance(source, bytes) else source.read_bytes()
        return self._make(decode_portrait(data, limits)[:256, :256], name)

    def default(self, store: AvatarStore) -> Avatar:
        return keep_presenter(store, ".bar.json", "1", lambda: self._make(np.full((128, 128, 3), 60, np.uint8), "Bar"))

    def _make(self, canvas: np.ndarray, name: str) -> Avatar:
        avatar = Avatar(
            avatar_id="",
            family="bar",
            name=name,
            canvas_rgb=np.ascontiguousarray(canvas),
            rect=FaceRect(0, 0, SIDE, SIDE),
            crop_to_canvas=np.array([[SIDE / CROP_SIZE, 0, 0], [0, SIDE / CROP_SIZE, 0]], np.float32),
            mask=np.ones((CROP_SIZE, CROP_SIZE), np.float32),
            tensors={"side": np.array([SIDE], np.int32)},
        )
        check_avatar(avatar)
        return replace(avatar, avatar_id=content_id(avatar))


class BarFamily(Family):
    name = "bar"
    stages = ("audio_features", "renderer")
    gpu_shares = {"audio_features": 0.3, "renderer": 0.5, "rife": 0.2}

    def info(self, audio: AudioFacts, motion: MotionFacts | None) -> StageInfo:
        assert motion is None, "there is no such stage"
        return StageInfo("bar", HOP, audio.context_samples, audio.lookahead_samples, 1, False, passes_rows_on=True)

    def load_audio(self, folder: Path | None, device: str, threads: int, runtime: RuntimeKind = "auto") -> BarEars:
        return BarEars()

    def pass_on(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        assert isinstance(carry, BarCarry)
        motion = rows.rows.reshape(-1, 2).mean(axis=1, keepdims=True)
        return MotionChunk(motion, carry.next_frame), replace(carry, next_frame=carry.next_frame + len(motion))

    def load_renderer(
        self,
        load_avatar: Callable[[str], Avatar],
        folder: Path | None,
        device: str,
        cache_bytes: int,
        runtime: RuntimeKind = "auto",
    ) -> BarPainter:
        return BarPainter(load_avatar)

    def local_stages(
        self, load_avatar: Callable[[str], Avatar], folder: Path | None, device: str, rife: RifeSettings | None = None
    ) -> StageThreads:
        ears, shape = BarEars(), BarEars.shape
        pictures = LocalRife(lambda _: StillTail(load_avatar, DEFAULT_CACHE_BYTES), rife or RifeSettings(), device)
        info = self.info(AudioFacts(shape.left_samples, shape.lookahead_samples), None)
        return StageThreads(info, ears, self.pass_on, BarPainter(load_avatar), pictures)

    def avatar_maker(self, folder: Path | None, home: Path | None = None) -> BarMaker:
        return BarMaker()

    def check_tensors(self, avatar: Avatar) -> None:
        check_array("tensors.side", avatar.tensors.get("side", np.zeros(0)), np.int32, (1,))

    def behaviour(self, avatar: Avatar) -> BarBehaviour:
        return BarBehaviour()


FAMILY: Final = BarFamily()
