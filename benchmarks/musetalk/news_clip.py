"""What the end-to-end rows are measured on: 27 s of news-like speech with pauses, and an avatar of a moving clip at 1080x1920."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Final

import numpy as np
import torch

from kernels.arrays import F32, U8
from pipeline.musetalk.face_labels import MeshLabels
from pipeline.musetalk.registration import SourceModels, make_avatar
from pipeline.presenter.draw import draw_presenter
from pipeline.types import SAMPLES_PER_FRAME, Avatar

SPEECH: Final = Path(__file__).resolve().parents[2] / "docs" / "demo" / "speech.wav"
FRAMES: Final = 675
QUIET: Final = 0.008
"""Below this RMS of a frame's own 640 samples the published system shows the avatar's own picture."""
VERSION: Final = "random-latents"
_PAUSES: Final = (12, 27, 27, 12)
"""Frames of silence before, between and after three readings of the sentence."""
_ROOM: Final = 0.001
"""RMS of a quiet room."""


def news_speech() -> F32:
    """float32 (432000,), 16 kHz: three readings, with the pauses of a newsreader between them."""
    with wave.open(str(SPEECH)) as file:
        read = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768.0
    loud = np.flatnonzero(frame_rms(read) >= QUIET)
    spoken = read[loud[0] * SAMPLES_PER_FRAME : (loud[-1] + 1) * SAMPLES_PER_FRAME]
    room = np.random.default_rng(4)
    parts: list[F32] = []
    for index, frames in enumerate(_PAUSES):
        parts.append(_ROOM * room.standard_normal(frames * SAMPLES_PER_FRAME).astype(np.float32))
        if index < len(_PAUSES) - 1:
            parts.append(spoken)
    made = np.concatenate(parts)[: FRAMES * SAMPLES_PER_FRAME]
    return np.pad(made, (0, FRAMES * SAMPLES_PER_FRAME - len(made)))


def frame_rms(pcm: F32) -> F32:
    """RMS of every whole frame of 640 samples."""
    frames = pcm[: len(pcm) // SAMPLES_PER_FRAME * SAMPLES_PER_FRAME].reshape(-1, SAMPLES_PER_FRAME)
    levels: F32 = np.sqrt(np.square(frames).mean(axis=1))
    return levels


class RandomLatents:
    """Stands for the autoencoder, which is not measured here."""

    def read(self, face: torch.Tensor) -> torch.Tensor:
        """Latents (n, 8, 32, 32) of a usual size."""
        return torch.randn(len(face), 8, 32, 32, generator=torch.Generator().manual_seed(int(face.sum()) % 2**31))


def moving_avatar(
    frames: int = 50, version: str = VERSION, size: tuple[int, int] = (1080, 1920)
) -> tuple[Avatar, list[U8]]:
    """The drawn presenter, swaying, before a wall that changes: all of the picture moves. Also its canvases, RGB.

    Args:
        frames: Length of the clip.
        version: Weights that the latents stand for.
        size: Width and height.
    """
    drawing = draw_presenter(*size)
    shifts = [round(6 * np.sin(2 * np.pi * i / frames)) for i in range(frames)]
    canvases = []
    for i, shift in enumerate(shifts):
        canvas = np.roll(drawing.rgb, shift, axis=1)
        canvas[:24] = canvas[-24:] = 20 + 4 * i  # the first and last lines move too, so the whole picture does
        canvases.append(np.ascontiguousarray(canvas))
    meshes = [(drawing.landmarks + np.array([shift, 0, 0], np.float32)).astype(np.float32) for shift in shifts]
    models = SourceModels(RandomLatents(), MeshLabels(), version)
    return make_avatar(lambda: iter(canvases), meshes, models, "news"), canvases
