"""Labelled speech laid end to end in memory, and batches cut out of it at random.

Utterances are padded to whole frames (640 samples), separated by pauses and grouped into streams of one voice, over which head
motion runs on. Everything is indexed by frame, so a batch is a gather on the device that trains.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import torch
from torch import Tensor

from engines.mini.motion_space import DEGREES_OF_FREEDOM, DofStatistics
from engines.mini.rig import ACTIONS
from pipeline.types import ROWS_PER_FRAME, SAMPLES_PER_FRAME

LIP_ACTIONS: Final = ("jaw_open", "lips_part", "wide", "pucker", "press", "lower_tuck")
LIP_COLUMNS: Final = tuple(ACTIONS.index(name) for name in LIP_ACTIONS)
LIP_DOFS: Final = tuple(DEGREES_OF_FREEDOM.index(name) for name in LIP_ACTIONS)


@dataclass(frozen=True)
class SpeechBank:
    """Holds speech with labels; every tensor is on one device.

    Attributes:
        audio: int16 (n * 640,), 16 kHz.
        phones: uint8 (2 n,), phone index of every 20 ms row (`training.phones.PHONES`).
        lips: float16 (2 n, 6), `LIP_ACTIONS` at 50 Hz; row 2 i is at the time of frame i.
        dofs: float32 (n, 20), degrees of freedom of the motion (`engines.mini.motion_space`), 25 Hz.
        cue: float32 (n,), blink cue.
        stream: int32 (n,), number of the stream that a frame belongs to.
    """

    audio: Tensor
    phones: Tensor
    lips: Tensor
    dofs: Tensor
    cue: Tensor
    stream: Tensor

    @property
    def frames(self) -> int:
        """Length in frames."""
        return int(self.stream.shape[0])

    def to(self, device: torch.device | str) -> SpeechBank:
        """Copy to a device."""
        return SpeechBank(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})

    def statistics(self) -> DofStatistics:
        """Statistics for `MotionSpace.fit`."""
        return DofStatistics(
            self.dofs.mean(0).cpu(), self.dofs.std(0).cpu(), self.dofs.amin(0).cpu(), self.dofs.amax(0).cpu()
        )


@dataclass(frozen=True)
class Segments:
    """A batch of stretches of `frames` frames.

    Attributes:
        pcm: float32 (B, left + frames * 640 + lookahead), with the encoder's context on both sides.
        phones: int64 (B, 2 frames).
        lips: float32 (B, 2 frames, 6).
        dofs: float32 (B, frames, 20).
        cue: float32 (B, frames).
        stream: int32 (B, frames).
    """

    pcm: Tensor
    phones: Tensor
    lips: Tensor
    dofs: Tensor
    cue: Tensor
    stream: Tensor


class SegmentSampler:
    """Draws random segments.

    Args:
        bank: The bank that segments are cut from.
        frames: Length of a segment in frames.
        left_samples: Samples of context before a segment.
        lookahead_samples: Samples of context after a segment.
        seed: Seed of the draw.
    """

    def __init__(self, bank: SpeechBank, frames: int, left_samples: int, lookahead_samples: int, seed: int) -> None:
        self._bank = bank
        self._frames = frames
        self._left = left_samples
        self._right = lookahead_samples
        device = bank.audio.device
        self._generator = torch.Generator(device=device).manual_seed(seed)
        self._first = -(-left_samples // SAMPLES_PER_FRAME)
        self._last = bank.frames - frames - -(-lookahead_samples // SAMPLES_PER_FRAME)
        if self._last <= self._first:
            raise ValueError(f"a bank of {bank.frames} frames is too short for segments of {frames}")

    @property
    def generator(self) -> torch.Generator:
        """The generator of the draw, for augmentation as well."""
        return self._generator

    def draw(self, batch: int) -> Segments:
        """Draw `batch` segments."""
        bank, device = self._bank, self._bank.audio.device
        start = torch.randint(self._first, self._last, (batch, 1), generator=self._generator, device=device)
        samples = start * SAMPLES_PER_FRAME - self._left
        length = self._left + self._frames * SAMPLES_PER_FRAME + self._right
        pcm = bank.audio[samples + torch.arange(length, device=device)].float() / 32768.0
        frame = start + torch.arange(self._frames, device=device)
        row = start * ROWS_PER_FRAME + torch.arange(self._frames * ROWS_PER_FRAME, device=device)
        return Segments(
            pcm,
            bank.phones[row].long(),
            bank.lips[row].float(),
            bank.dofs[frame],
            bank.cue[frame],
            bank.stream[frame],
        )
