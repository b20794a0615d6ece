"""What a presenter does besides moving the lips: training targets for head, brows, lids and gaze.

The base is `pipeline.mini.idle_motion`, so that speech starts from and ends in the same style. On top come, during
speech: nods and brow raises on loud vowels, slow turns from phrase to phrase, a livelier sway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.mini.motion_space import DEGREES_OF_FREEDOM
from engines.mini.rig import ACTION_INDEX, ACTIONS
from kernels.arrays import F32, F64
from pipeline.mini.idle_motion import idle_actions
from pipeline.session.blink_cue import blink_cue
from pipeline.session.sway import POSE
from pipeline.types import MOTION_FPS, SAMPLES_PER_FRAME
from training.phones import SILENCE, VOWELS, Phone

MAX_YAW_DEG: Final = 4.0
MAX_ANGLE_DEG: Final = 5.0
BEAT_MIN_GAP_S: Final = 0.45
_MOUTH: Final = ("jaw_open", "lips_part", "wide", "pucker", "press", "lower_tuck")


def loudness(pcm: NDArray[np.int16] | F32, n_frames: int) -> F64:
    """Loudness of every frame, 1 = the median of the speech in it, 0 in silence; smoothed over 120 ms."""
    scale = 1.0 / 32768.0 if pcm.dtype == np.int16 else 1.0
    padded = np.zeros(n_frames * SAMPLES_PER_FRAME)
    count = min(len(pcm), len(padded))
    padded[:count] = pcm[:count].astype(np.float64) * scale
    level = np.sqrt(np.maximum(np.square(padded).reshape(n_frames, -1).mean(1), 0.0))
    level = np.convolve(level, (0.25, 0.5, 0.25), mode="same")
    loud = level[level > 0.1 * level.max(initial=0.0)]
    return level / np.median(loud) if len(loud) else level


def activity(phones: Sequence[Phone], n_frames: int) -> F64:
    """Curve that is 1 during speech and 0 in silences of more than 0.4 s, with ramps of about 0.4 s."""
    speaking = np.zeros(n_frames)
    for phone in phones:
        if phone.symbol != SILENCE or phone.end_s - phone.start_s < 0.4:
            speaking[round(phone.start_s * MOTION_FPS) : round(phone.end_s * MOTION_FPS) + 1] = 1.0
    window = np.hanning(13)[1:-1]
    return np.convolve(speaking, window / window.sum(), mode="same")


def _bump(ages_s: F64, rise_s: float, fall_s: float) -> F64:
    """0 -> 1 -> 0 around age 0 with raised-cosine flanks."""
    x = np.where(ages_s < 0, ages_s / rise_s, ages_s / fall_s)
    return np.where(np.abs(x) < 1.0, 0.5 + 0.5 * np.cos(np.pi * x), 0.0)


def beats(phones: Sequence[Phone], level: F64, generator: np.random.Generator) -> list[tuple[float, float]]:
    """Vowels that stand out: (middle in seconds, strength 0..1), at least `BEAT_MIN_GAP_S` apart."""
    found: list[tuple[float, float]] = []
    for phone in phones:
        if phone.symbol not in VOWELS:
            continue
        middle = 0.5 * (phone.start_s + phone.end_s)
        frame = min(int(middle * MOTION_FPS), len(level) - 1)
        around = level[max(frame - 15, 0) : frame + 16]
        strength = float(np.clip((level[frame] / max(around.mean(), 1e-3) - 1.1) / 0.9, 0.0, 1.0))
        strength *= min((phone.end_s - phone.start_s) / 0.12, 1.0)
        if strength <= 0.15 or (found and middle - found[-1][0] < BEAT_MIN_GAP_S):
            continue
        if generator.random() < 0.85:
            found.append((middle, strength))
    return found


def _phrase_turns(phones: Sequence[Phone], times: F64, generator: np.random.Generator) -> dict[str, F64]:
    """A new resting direction for every phrase, reached in about a second."""
    curves = {name: np.zeros(len(times)) for name in ("pitch", "yaw", "roll")}
    edges = [0.0]
    for phone in phones:
        if phone.symbol == SILENCE and phone.end_s - phone.start_s > 0.12 and phone.start_s - edges[-1] > 1.2:
            edges.append(phone.start_s)
    spread = {"pitch": 0.7, "yaw": 1.5, "roll": 0.7}
    for edge in edges:
        took = generator.uniform(0.7, 1.3)
        x = np.clip((times - edge) / took, 0.0, 1.0)
        share = x * x * x * (x * (6.0 * x - 15.0) + 10.0)
        for name, curve in curves.items():
            curve += (generator.normal(0.0, spread[name]) - curve) * share
    return curves


def _soft_limit(x: F64, limit: float) -> F64:
    """Stay inside +-limit without a corner; nearly the identity up to half of it."""
    return limit * np.tanh(x / limit)


def behave(
    pcm: NDArray[np.int16] | F32,
    phones: Sequence[Phone],
    lips: F32,
    generator: np.random.Generator,
) -> tuple[F32, F32]:
    """Targets of one stream of speech.

    Args:
        pcm: (n * 640,) at 16 kHz, int16 or float32 -1..1; shorter is padded with silence.
        phones: Canonical phones, times in seconds from the start of `pcm`.
        lips: float32 (n, n_actions), the lip actions of `training.visemes` at 25 frames/s.
        generator: Draws this stream's manner.

    Returns:
        Degrees of freedom float32 (n, 20) in the order of `engines.mini.motion_space.DEGREES_OF_FREEDOM` (angles in degrees,
        translation in face widths, scale - 1, actions), and the blink cue float32 (n,) that its lids follow.
    """
    n = len(lips)
    seed, first = int(generator.integers(2**31)), int(generator.integers(0, 5000))
    times = np.arange(n) / MOTION_FPS
    level, active = loudness(pcm, n), activity(phones, n)
    pose, actions = idle_actions(seed, first, n)
    curves = {name: pose[:, k].copy() for k, name in enumerate(POSE)}
    for name, turn in _phrase_turns(phones, times, generator).items():
        curves[name] += turn * active
    lively = float(generator.uniform(0.6, 1.3))
    raise_brow = np.zeros(n)
    for middle, strength in beats(phones, level, generator):
        ages = times - middle
        nod = _bump(ages - 0.03, generator.uniform(0.16, 0.24), generator.uniform(0.26, 0.42))
        curves["pitch"] += lively * (0.5 + 1.3 * strength) * generator.uniform(0.6, 1.2) * nod
        curves["roll"] += lively * generator.normal(0.0, 0.25) * nod
        curves["yaw"] += lively * generator.normal(0.0, 0.35) * nod
        curves["ty"] += 0.0015 * lively * strength * nod
        if generator.random() < 0.15 + 0.4 * strength:
            lift = generator.uniform(0.25, 0.6) * (0.5 + 0.5 * strength)
            np.maximum(raise_brow, lift * _bump(ages + 0.04, 0.22, generator.uniform(0.35, 0.6)), out=raise_brow)
    curves["yaw"] = _soft_limit(curves["yaw"], MAX_YAW_DEG)
    for name in ("pitch", "roll"):
        curves[name] = _soft_limit(curves[name], MAX_ANGLE_DEG)
    brow = ACTION_INDEX["brow_raise"]
    actions[:, brow] = np.clip(actions[:, brow] + raise_brow, 0.0, 0.8)
    for name in _MOUTH:
        actions[:, ACTION_INDEX[name]] = lips[:, ACTION_INDEX[name]]
    opened = np.clip(actions[:, ACTION_INDEX["jaw_open"]], 0.0, 1.0)
    actions[:, ACTION_INDEX["smile"]] *= 1.0 - 0.5 * opened
    actions[:, ACTION_INDEX["brow_furrow"]] = 0.0
    columns = [curves[name] for name in POSE] + [actions[:, k] for k in range(len(ACTIONS))]
    if len(columns) != len(DEGREES_OF_FREEDOM):
        raise AssertionError(DEGREES_OF_FREEDOM)
    return np.stack(columns, axis=1).astype(np.float32), blink_cue(seed, first, n)
