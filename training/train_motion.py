"""Train the motion model on the rows of the trained encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from engines.diffusion import TRAIN_STEPS, alphas_cumprod, ddim_steps
from engines.mini.control_points import CONTROL_POINTS, Unit
from engines.mini.load import DDIM_STEPS
from engines.mini.motion_space import MotionSpace
from engines.mini.rig import mouth_gap
from engines.motion_layout import EXP, MOTION_DIM, PITCH, POSE_BINS, ROLL, SCALE, YAW
from engines.networks import build
from engines.networks.lmdm import Lmdm
from engines.networks.mini.speech_encoder import SpeechEncoder
from pipeline.types import ROWS_PER_FRAME
from training.augment import Augmenter
from training.dataset import LIP_DOFS, Segments, SegmentSampler, SpeechBank
from training.loop import Loop, LoopSettings, Losses
from training.train_encoder import GAP_SCALE, TRAINING_AUGMENTATION

SEQ_FRAMES = 32
HOPS = (8, 8, 8, 4)
"""Lengths of the unknown end of a window, drawn evenly: 8 is the default hop, 4 the low-latency one."""


CLOSURE_MARGIN = 0.008
"""Mouth widths by which closed lips are asked to be pressed together."""


def motion_weights() -> Tensor:
    """Weight of every motion dimension in the loss, (265,): an angle's 66 logits count as one, the mouth counts most."""
    weights = torch.full((MOTION_DIM,), 0.6)
    for part in (PITCH, YAW, ROLL):
        weights[part] = 1.0 / POSE_BINS
    weights[SCALE] = 0.1
    for index, point in enumerate(CONTROL_POINTS):
        if point.unit is Unit.MOUTH:
            weights[EXP.start + 3 * index : EXP.start + 3 * index + 3] = 2.0
    return weights


@dataclass(frozen=True)
class MotionSettings:
    """Size of the training.

    Attributes:
        steps: Optimiser steps.
        segments: Segments per step.
        frames: Frames per segment.
        windows: Windows cut from each segment.
        seed: Seed of weights, draw and augmentation.
        drop: Share of windows whose condition is dropped, for guidance.
        rate: Peak learning rate.
        max_seconds: Stop early, resumable.
        fit_seconds: Find the number of steps that take this long.
    """

    steps: int = 3500
    segments: int = 96
    frames: int = 96
    windows: int = 8
    seed: int = 2
    drop: float = 0.05
    rate: float = 1e-3
    max_seconds: float = 1e9
    fit_seconds: float | None = None


@dataclass(frozen=True)
class Windows:
    """A batch of training windows.

    Attributes:
        dofs: (B, 33, 20) standardised, the frame before the window first.
        cond: (B, 32, cond_dim).
    """

    dofs: Tensor
    cond: Tensor


def cut_windows(
    segments: Segments, rows: Tensor, space: MotionSpace, count: int, generator: torch.Generator
) -> Windows:
    """Cut `count` random windows of each segment; windows that cross from one stream into the next are replaced."""
    batch, frames = segments.stream.shape
    device = segments.stream.device
    start = torch.randint(0, frames - SEQ_FRAMES, (batch, count), generator=generator, device=device)
    index = start[..., None] + torch.arange(SEQ_FRAMES + 1, device=device)
    item = torch.arange(batch, device=device)[:, None, None]
    per_frame = torch.unflatten(rows, 1, (frames, ROWS_PER_FRAME)).flatten(2)
    features = torch.cat([per_frame, segments.cue[..., None]], dim=-1)
    stream = segments.stream[item, index].flatten(0, 1)
    whole = (stream == stream[:, :1]).all(dim=1)
    good = whole.nonzero()[:, 0]
    choice = torch.where(
        whole,
        torch.arange(len(whole), device=device),
        good[torch.randint(0, max(len(good), 1), (len(whole),), generator=generator, device=device)],
    )
    dofs = (segments.dofs[item, index].flatten(0, 1)[choice] - space.dof_mean) / space.dof_std
    cond = features[item, index[..., 1:]].flatten(0, 1)[choice]
    return Windows(dofs, cond)


class MotionObjective:
    """Denoising loss of windows whose first frames are known.

    Args:
        lmdm: The network in training.
        space: Its fitted motion space.
        silence_row: (row_dim,), the encoder's row for silence.
        settings: Size of the training.
        generator: Source of all randomness.
    """

    def __init__(
        self, lmdm: Lmdm, space: MotionSpace, silence_row: Tensor, settings: MotionSettings, generator: torch.Generator
    ) -> None:
        device = space.mean.device
        self._lmdm = lmdm
        self._space = space
        self._settings = settings
        self._generator = generator
        self._silence = silence_row.repeat(ROWS_PER_FRAME)
        self._bar = alphas_cumprod().to(device)
        self._times = torch.tensor([step.time for step in ddim_steps(DDIM_STEPS)], device=device)
        self._weights = motion_weights().to(device) * (space.from_dof.abs().sum(0) > 0)
        self._weights = self._weights * (len(self._weights) / self._weights.sum())
        self._mean, self._spread = space.dof_mean, space.dof_std

    def gap(self, x: Tensor) -> Tensor:
        """Normalised motion (..., 265) -> commanded lip gap in mouth widths (...,)."""
        return mouth_gap(torch.unflatten(self._space.denormalise(x)[..., EXP], -1, (21, 3)))

    def losses(self, windows: Windows) -> Losses:
        """Losses of one batch."""
        generator, device = self._generator, windows.dofs.device
        batch = len(windows.dofs)
        hop = HOPS[int(torch.randint(0, len(HOPS), (1,), generator=generator, device=device))]
        past = SEQ_FRAMES - hop
        target, cond = self._perturb(windows, past)
        known, wanted = target[:, : past + 1], target[:, 1:]
        t = self._draw_times(batch)
        bar = self._bar[t][:, None, None]
        noise = torch.randn(batch, hop, self._space.dofs, generator=generator, device=device)
        noisy = bar.sqrt() * wanted[:, past:] + (1.0 - bar).sqrt() * noise
        x = self._space.noise(torch.cat([known[:, 1:], noisy], dim=1))
        drop = torch.rand(batch, generator=generator, device=device) < self._settings.drop
        cache = self._lmdm.encode_branches(self._space.noise(known[:, 0]), cond, t, drop)
        raw = self._lmdm.denoise_branches(x, 0, cache)
        clean = raw @ self._space.to_dof @ self._space.from_dof
        return self._measure(raw, clean, self._space.noise(wanted), past, drop)

    def _measure(self, raw: Tensor, clean: Tensor, wanted: Tensor, past: int, drop: Tensor) -> Losses:
        error = clean - wanted
        keep = (~drop).float()[:, None]
        gap, wanted_gap = self.gap(clean)[:, past:] / GAP_SCALE, self.gap(wanted)[:, past:] / GAP_SCALE
        closed = (wanted_gap * GAP_SCALE <= 0.003).float()
        joined = torch.cat([wanted[:, past - 1 : past], clean[:, past:]], dim=1)
        speed_error = joined.diff(dim=1) - wanted[:, past - 1 :].diff(dim=1)
        absolute = F.smooth_l1_loss(clean[:, past:], wanted[:, past:], beta=0.5, reduction="none")
        return {
            "new": (absolute * self._weights).mean() * 3.0,
            "known": (error[:, :past].square() * self._weights).mean() * 0.5,
            "speed": (speed_error.square() * self._weights).mean(),
            "gap": (F.smooth_l1_loss(gap, wanted_gap, beta=0.3, reduction="none") * keep).mean() * 2.0,
            "hinge": (F.relu(gap + CLOSURE_MARGIN / GAP_SCALE) * closed * keep).mean() * 8.0,
            "outside": (raw - clean).square().mean() * 0.02,
        }

    def _draw_times(self, batch: int) -> Tensor:
        """Mostly the timesteps that sampling will use, all others now and then."""
        generator, device = self._generator, self._bar.device
        any_time = torch.randint(0, TRAIN_STEPS, (batch,), generator=generator, device=device)
        chosen = self._times[torch.randint(0, len(self._times), (batch,), generator=generator, device=device)]
        return torch.where(torch.rand(batch, generator=generator, device=device) < 0.7, chosen, any_time)

    def _perturb(self, windows: Windows, past: int) -> tuple[Tensor, Tensor]:
        """Make the known frames as imperfect as sampled ones, so that errors are corrected instead of carried on.

        Pose gets an offset that the target gives up slowly; lips get noise, or another window's lips altogether; sometimes the
        past is silence and a closed mouth, as when a session starts in the middle of a word.
        """
        generator, device = self._generator, windows.dofs.device
        batch, length, dofs = windows.dofs.shape
        random = torch.randn(batch, 1, dofs, generator=generator, device=device)
        frames = torch.arange(length, device=device)
        fade = torch.exp(-(frames - past).clamp_min(0) / 40.0)[None, :, None]
        offset = 0.35 * random * (torch.rand(batch, 1, 1, generator=generator, device=device) < 0.5)
        lip_mask = torch.zeros(dofs, device=device)
        lip_mask[list(LIP_DOFS)] = 1.0
        target = windows.dofs + offset * fade * (1.0 - lip_mask)
        jitter = torch.randn(batch, length, dofs, generator=generator, device=device)
        jitter = jitter * lip_mask * 0.15 * (frames <= past)[None, :, None]
        choice = torch.rand(batch, 1, 1, generator=generator, device=device)
        foreign = torch.where(lip_mask.bool(), target.roll(1, dims=0), target)
        rest = torch.where(lip_mask.bool(), (-self._mean / self._spread).expand_as(target), target)
        known = torch.where(choice < 0.15, foreign, torch.where(choice > 0.95, rest, target + jitter))
        is_known = (frames <= past)[None, :, None]
        target = torch.where(is_known, known, target)
        silent = (choice > 0.95) & (frames[1:] <= past)[None, :, None]
        quiet = torch.cat([self._silence, self._silence.new_zeros(1)])
        quiet = torch.cat([quiet[:-1].expand(batch, length - 1, -1), windows.cond[..., -1:]], dim=-1)
        return target, torch.where(silent, quiet, windows.cond)


def train_motion(
    bank: SpeechBank,
    encoder: SpeechEncoder,
    settings: MotionSettings,
    folder: Path,
    start: tuple[Lmdm, MotionSpace] | None = None,
) -> tuple[Lmdm, MotionSpace, Loop]:
    """Train, resuming what is in `folder`.

    Args:
        bank: Labelled speech, on the device that trains.
        encoder: The trained encoder, which makes the rows.
        settings: Size of the training.
        folder: Folder of checkpoints.
        start: Weights to go on from, with the motion space that they live in; None means random ones and a space fitted to `bank`.
            A checkpoint in `folder` comes first.

    Returns:
        The network with averaged weights, its motion space, and the loop: is it finished, how many steps?
    """
    device = bank.audio.device
    encoder = encoder.to(device).eval().requires_grad_(False)
    lmdm = cast(Lmdm, build("mini/lmdm", seed=settings.seed)).to(device).train()
    space = MotionSpace()
    if start is None:
        space.fit(bank.statistics())
    else:
        lmdm.load_state_dict(start[0].state_dict())
        space.load_state_dict(start[1].state_dict())
    space = space.to(device)
    torch.manual_seed(settings.seed)
    sampler = SegmentSampler(bank, settings.frames, encoder.left_samples, encoder.lookahead_samples, settings.seed)
    augmenter = Augmenter(TRAINING_AUGMENTATION)
    with torch.no_grad():
        silence = encoder(torch.zeros(1, encoder.window_samples(1), device=device))[0, 0]
    objective = MotionObjective(lmdm, space, silence, settings, sampler.generator)
    loop = Loop(
        {"lmdm": lmdm},
        LoopSettings(
            settings.steps,
            learning_rate=settings.rate,
            max_seconds=settings.max_seconds,
            fit_seconds=settings.fit_seconds,
        ),
        folder,
    )

    def losses(step: int) -> Losses:
        segments = sampler.draw(settings.segments)
        with torch.no_grad():
            rows = encoder(augmenter(segments.pcm, sampler.generator))
        return objective.losses(cut_windows(segments, rows, space, settings.windows, sampler.generator))

    loop.run(losses)
    loop.use_averaged()
    return lmdm.eval(), space, loop
