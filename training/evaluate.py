"""Held-out evaluation of the trained pair, through the same stages that serve: what the commanded lips do against the labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from engines.mini.load import MiniEngines
from engines.mini.motion_space import rest_motion
from engines.mini.rig import mouth_gap
from engines.motion_layout import EXP, unpack_motion
from engines.networks.mini.speech_encoder import SpeechEncoder
from kernels.arrays import F32
from pipeline.mini.audio_features import AudioFeaturesItem
from pipeline.mini.load import make_speech_stages
from pipeline.mini.motion_diffusion import initial_carry
from pipeline.stages import MotionItem
from pipeline.types import FEATURE_RATE_HZ, MOTION_FPS, ROWS_PER_FRAME, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME
from training.alignment import expected_opening
from training.lip_sync import (
    Span,
    SpokenClip,
    best_lag,
    closed_share,
    closures,
    false_closures_per_s,
    pooled_r,
    wrong_sentence_r,
)
from training.phones import BILABIALS, PHONE_CLASS, PHONES, SILENCE, Phone, rasterise
from training.train_encoder import RowHeads, lip_gap

CLOSED_GAP = 1e-3
"""Commanded gap in mouth widths below which a mouth counts as closed."""

BATCH_CLIPS = 40
"""Number of clips that are measured at once."""


@dataclass(frozen=True)
class LabelledClip:
    """Holds one sentence with its phone timings.

    Attributes:
        name: Name of the clip in messages.
        pcm: float32 (n,), 16 kHz mono.
        phones: Phones that tile the audio.
    """

    name: str
    pcm: F32
    phones: tuple[Phone, ...]


def motion_of_clips(engines: MiniEngines, pcms: Sequence[F32], seed: int = 0) -> list[F32]:
    """Motion (n, 265) of whole clips, through the stages, batched."""
    audio, motion = make_speech_stages(engines)
    features = audio.steps([AudioFeaturesItem(pcm, audio.initial_carry(), True) for pcm in pcms])
    items = []
    for index, result in enumerate(features):
        if isinstance(result, Exception):
            raise result
        items.append(MotionItem(result[0], initial_carry(seed + index, rest_motion().numpy()), True))
    chunks = []
    for chunk in motion.steps(items):
        if isinstance(chunk, Exception):
            raise chunk
        chunks.append(chunk[0].motion)
    return chunks


def gap_of(motion: F32) -> F32:
    """Commanded inner-lip gap in mouth widths (n,) of motion (n, 265)."""
    exp = torch.from_numpy(motion[:, EXP]).unflatten(-1, (21, 3))  # type: ignore[no-untyped-call]  # torch's own, without types
    return np.asarray(mouth_gap(exp).numpy(), dtype=np.float32)


def spoken(clip: LabelledClip, gap: F32) -> SpokenClip:
    """Pair the commanded gap with the expected opening."""
    expected = expected_opening(clip.phones, len(gap), MOTION_FPS)
    spans = tuple(Span(p.start_s, p.end_s) for p in clip.phones if p.symbol in BILABIALS)
    silences = tuple(Span(p.start_s, p.end_s) for p in clip.phones if p.symbol == SILENCE)
    return SpokenClip(clip.name, gap, expected, spans, MOTION_FPS, silences)


def lip_measures(clips: Sequence[SpokenClip]) -> dict[str, float]:
    """The lip-sync measures of commanded gaps."""
    lag, at_best = best_lag(clips)
    return {
        "lip_sync_r": pooled_r(clips),
        "best_lag_frames": float(lag),
        "r_at_best_lag": at_best,
        "wrong_sentence_r": wrong_sentence_r(clips) if len(clips) > 1 else 0.0,
        "closures_share": float(np.mean(closures(clips, CLOSED_GAP))),
        "false_closures_per_s": false_closures_per_s(clips, CLOSED_GAP),
        "n_clips": float(len(clips)),
    }


def clip_measures(engines: MiniEngines, clips: Sequence[LabelledClip], seed: int = 0) -> dict[str, float]:
    """The lip-sync measures of clips, through the stages."""
    gaps: list[F32] = []
    for first in range(0, len(clips), BATCH_CLIPS):
        batch = [clip.pcm for clip in clips[first : first + BATCH_CLIPS]]
        gaps += [gap_of(motion) for motion in motion_of_clips(engines, batch, seed + first)]
    return lip_measures([spoken(clip, gap) for clip, gap in zip(clips, gaps, strict=True)])


def silence_measure(engines: MiniEngines, speech: F32, seed: int = 0) -> dict[str, float]:
    """Share of closed frames in 5 s of digital silence, and of noise at -50 dBFS, after speech."""
    noise = np.random.default_rng(seed).standard_normal(5 * SAMPLE_RATE_HZ).astype(np.float32) * 10 ** (-50 / 20)
    tails = {"digital_silence_closed": np.zeros_like(noise), "noise_closed": noise}
    shares = {}
    for name, tail in tails.items():
        lead = speech[: len(speech) // 640 * 640]
        motion = motion_of_clips(engines, [np.concatenate([lead, tail])])[0]
        shares[name] = closed_share(gap_of(motion), 0.02, MOTION_FPS, silent_from_s=len(lead) / SAMPLE_RATE_HZ)
    return shares


def motion_measures(motions: Sequence[F32], hop: int = 8) -> dict[str, float]:
    """Measure how much the head moves, and whether the joins of windows show."""
    angles = [unpack_motion(torch.from_numpy(m))[0].numpy() for m in motions]
    pooled = np.concatenate(angles)
    joins, others = [], []
    for motion in motions:
        step = np.abs(np.diff(motion[:, EXP], axis=0)).mean(axis=1)
        index = np.arange(1, len(motion))
        joins.append(step[index % hop == 0])
        others.append(step[index % hop != 0])
    second = np.concatenate([np.diff(a, n=2, axis=0) for a in angles if len(a) > 2])
    return {
        "pitch_std_deg": float(pooled[:, 0].std()),
        "yaw_std_deg": float(pooled[:, 1].std()),
        "roll_std_deg": float(pooled[:, 2].std()),
        "pose_jitter_deg": float(np.abs(second).mean()),
        "join_ratio": float(np.concatenate(joins).mean() / max(np.concatenate(others).mean(), 1e-9)),
    }


def evaluate(
    engines: MiniEngines,
    clips: Sequence[LabelledClip],
    augment: Callable[[F32], F32] | None = None,
) -> dict[str, dict[str, float]]:
    """Take all measures of a trained pair.

    Args:
        engines: The trained pair.
        clips: Held-out sentences of held-out voices.
        augment: Makes a clip noisy, with its timing kept; None leaves that part out.

    Returns:
        Measures by part: `clean`, `gain_-30_db`, `augmented`, `silence`, `motion`.
    """
    motions = motion_of_clips(engines, [clip.pcm for clip in clips])
    results = {"clean": lip_measures([spoken(c, gap_of(m)) for c, m in zip(clips, motions, strict=True)])}
    quiet = [replace(clip, pcm=(clip.pcm * 10 ** (-30 / 20)).astype(np.float32)) for clip in clips]
    results["gain_-30_db"] = clip_measures(engines, quiet)
    if augment is not None:
        results["augmented"] = clip_measures(engines, [replace(clip, pcm=augment(clip.pcm)) for clip in clips])
    results["silence"] = silence_measure(engines, clips[0].pcm)
    results["motion"] = motion_measures(motions)
    return results


def row_measures(encoder: SpeechEncoder, heads: RowHeads, clips: Sequence[LabelledClip]) -> dict[str, float]:
    """Measure what a linear read-out of the rows tells: the ceiling for anything that consumes them.

    Returns:
        `phone_accuracy` and `class_accuracy` per 20 ms row, and the lip measures of the read-out gap at frame times.
    """
    device = next(encoder.parameters()).device
    right = class_right = count = 0
    spoken_clips = []
    classes = [PHONE_CLASS[symbol] for symbol in PHONES]
    for clip in clips:
        frames = -(-len(clip.pcm) // SAMPLES_PER_FRAME)
        total = encoder.window_samples(frames * ROWS_PER_FRAME)
        pcm = np.zeros(total, np.float32)
        pcm[encoder.left_samples :][: len(clip.pcm)] = clip.pcm
        with torch.inference_mode():
            rows = encoder(torch.from_numpy(pcm)[None].to(device))
            predicted = heads.phone(rows)[0].argmax(-1).cpu().numpy()
            gap = lip_gap(heads.lips(rows))[0, ::ROWS_PER_FRAME].cpu().numpy()
        labels = rasterise(clip.phones, frames * ROWS_PER_FRAME, FEATURE_RATE_HZ)
        right += int((predicted == labels).sum())
        class_right += sum(classes[p] == classes[q] for p, q in zip(predicted, labels, strict=True))
        count += len(labels)
        spoken_clips.append(spoken(clip, gap))
    accuracy = {"phone_accuracy": right / count, "class_accuracy": class_right / count}
    return accuracy | lip_measures(spoken_clips)
