"""Train the speech encoder: its rows must tell, linearly, which phone is spoken and what the lips do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.mini.rig import action_basis, mouth_gap
from engines.networks import build
from engines.networks.mini.speech_encoder import SpeechEncoder
from training.augment import AugmentConfig, Augmenter
from training.dataset import LIP_ACTIONS, LIP_COLUMNS, Segments, SegmentSampler, SpeechBank
from training.loop import Loop, LoopSettings, Losses
from training.phones import BILABIALS, PHONES

TRAINING_AUGMENTATION = AugmentConfig(gain_db=(-34.0, 6.0))
GAP_SCALE = 0.1
"""Unit in mouth widths in which errors of the gap count."""


class RowHeads(nn.Module):
    """Linear read-outs of a row, used in training and evaluation only.

    Args:
        row_dim: Width of a row.
    """

    def __init__(self, row_dim: int) -> None:
        super().__init__()
        self.phone = nn.Linear(row_dim, len(PHONES))
        self.lips = nn.Linear(row_dim, len(LIP_ACTIONS))
        self.closed = nn.Linear(row_dim, 1)


@dataclass(frozen=True)
class EncoderSettings:
    """Size of the training.

    Attributes:
        steps: Optimiser steps.
        batch: Segments per step.
        frames: Frames per segment.
        seed: Seed of weights, draw and augmentation.
        rate: Peak learning rate.
        max_seconds: Stop early, resumable.
        fit_seconds: Find the number of steps that take this long.
    """

    steps: int = 4000
    batch: int = 192
    frames: int = 64
    seed: int = 1
    rate: float = 1.5e-3
    max_seconds: float = 1e9
    fit_seconds: float | None = None


@dataclass(frozen=True)
class EncoderStart:
    """Weights to go on from.

    Attributes:
        encoder: Encoder of an earlier training.
        heads: Its read-outs; None where they were not kept: new ones are then trained alone for the first steps.
    """

    encoder: SpeechEncoder
    heads: RowHeads | None = None


HEADS_ALONE_STEPS = 150
"""New read-outs of a trained encoder do not pull at it until they have learned to read it."""


def lip_gap(lips: Tensor) -> Tensor:
    """Lip actions (..., 6) -> commanded gap in mouth widths (...,)."""
    return lips @ _gap_vector().to(lips)


def _gap_vector() -> Tensor:
    """Gap per unit of every lip action, (6,)."""
    return mouth_gap(action_basis())[list(LIP_COLUMNS)]


def phone_weights(like: Tensor) -> Tensor:
    """Weight of every phone in the loss: /m b p/ count double, since a viewer sees them first."""
    return torch.tensor([2.0 if symbol in BILABIALS else 1.0 for symbol in PHONES], device=like.device)


def row_losses(heads: RowHeads, rows: Tensor, segments: Segments) -> Losses:
    """Losses of a batch of rows (B, t, row_dim)."""
    phone = F.cross_entropy(
        heads.phone(rows).flatten(0, 1), segments.phones.flatten(), weight=phone_weights(rows), label_smoothing=0.05
    )
    lips = heads.lips(rows)
    gap, wanted = lip_gap(lips), lip_gap(segments.lips)
    closed = wanted <= 0.002
    hinge = F.relu(gap + 0.01) * closed
    return {
        "phone": phone,
        "lips": 10.0 * F.smooth_l1_loss(lips, segments.lips, beta=0.1),
        "gap": F.smooth_l1_loss(gap / GAP_SCALE, wanted / GAP_SCALE, beta=0.5),
        "hinge": 2.0 * (hinge / GAP_SCALE).mean(),
        "closed": F.binary_cross_entropy_with_logits(heads.closed(rows)[..., 0], closed.float()),
    }


def train_encoder(
    bank: SpeechBank, settings: EncoderSettings, folder: Path, start: EncoderStart | None = None
) -> tuple[SpeechEncoder, RowHeads, Loop]:
    """Train, resuming what is in `folder`.

    Args:
        bank: Labelled speech, on the device that trains.
        settings: Size of the training.
        folder: Folder of checkpoints.
        start: Weights to go on from; None means random ones. A checkpoint in `folder` comes first.

    Returns:
        Encoder and heads with averaged weights, and the loop: is it finished, how many steps?
    """
    device = bank.audio.device
    encoder = cast(SpeechEncoder, build("mini/speech_encoder", seed=settings.seed)).to(device).train()
    torch.manual_seed(settings.seed)
    heads = RowHeads(encoder.row_dim).to(device)
    alone = 0
    if start is not None:
        encoder.load_state_dict(start.encoder.state_dict())
        if start.heads is None:
            alone = HEADS_ALONE_STEPS
        else:
            heads.load_state_dict(start.heads.state_dict())
    sampler = SegmentSampler(bank, settings.frames, encoder.left_samples, encoder.lookahead_samples, settings.seed)
    augmenter = Augmenter(TRAINING_AUGMENTATION)
    loop = Loop(
        {"encoder": encoder, "heads": heads},
        LoopSettings(
            settings.steps,
            learning_rate=settings.rate,
            max_seconds=settings.max_seconds,
            fit_seconds=settings.fit_seconds,
            fit_after=alone,
        ),
        folder,
    )

    def losses(step: int) -> Losses:
        segments = sampler.draw(settings.batch)
        rows = encoder(augmenter(segments.pcm, sampler.generator))
        return row_losses(heads, rows.detach() if step < alone else rows, segments)

    loop.run(losses)
    loop.use_averaged()
    return encoder.eval(), heads.eval(), loop
