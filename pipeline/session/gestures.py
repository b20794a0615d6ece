"""Gestures that go with a voice: the head nods and brows rise at stressed syllables, the eyes blink where a phrase ends.

A function of the samples around each frame and of (seed, frame index), without state: any stretch of frames can be made alone,
and a file and a live session make the same. Stress is a peak of the level well above its mean of the last 1.2 s; a phrase ends
where the voice falls silent for a quarter of a second. Nothing depends on more than `AHEAD` frames of what comes, which live
sessions know.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from kernels.arrays import F32, F64
from pipeline.expression.looks import CHANNELS, LIDS, NOD, RAISE
from pipeline.session.blink_cue import blink_cue, hashed_uniform, lid_closure
from pipeline.types import MOTION_FPS, SAMPLES_PER_FRAME

AHEAD: Final = 3
"""Frames of samples after a frame that its gestures depend on: as many as an encoder's look-ahead touches."""
MEAN_FRAMES: Final = 30
APART_FRAMES: Final = 11
"""Frames before a stress that hold no louder one: 0.45 s."""
STRESSED: Final = 1.3
"""Level of a stress over the mean of what was heard."""
FULL: Final = 1.9
"""Level over the mean at which a gesture is as large as it gets."""
LEAST_RMS: Final = 0.02
TAKEN_SHARE: Final = 0.7
"""Share of stresses that the head goes with; which ones, the seed says."""
NOD_DEG: Final = 1.6
RAISE_MOST: Final = 0.35
DOWN_S, UP_S = 0.24, 0.36
LEAD_FRAMES: Final = 2
"""Frames before a stress at which its gesture begins."""
QUIET: Final = 0.18
"""Level of silence, as a share of the loudest of the last 1.2 s."""
PAUSE_FRAMES: Final = 7
SPOKEN_FRAMES: Final = 12
"""Frames of voice, of the 16 before a pause, that make a phrase."""
BLINK_AFTER: Final = 4
"""Frames of a pause before its blink."""
CLEAR_FRAMES: Final = 14
"""No blink is added so close to one of the schedule."""
_HEARD_FRAMES: Final = 8
"""Frames of voice, of the 16 before a stress, that must have been heard: how a voice begins is no stress."""
_LASTS: Final = 17
"""Frames after its first sign in which a gesture is over."""
_BEFORE: Final = MEAN_FRAMES + _LASTS


class Voice(Protocol):
    """Samples of speech by their position."""

    def read(self, start: int, length: int) -> F32:
        """Samples start .. start + length at 16 kHz, float32 (length,), silence where there are none."""
        ...


class WholeVoice:
    """Implements `Voice` for a clip that is in memory, float32 (n,)."""

    def __init__(self, pcm: F32) -> None:
        self._pcm = pcm

    def read(self, start: int, length: int) -> F32:
        """Implement `Voice`."""
        out = np.zeros(length, np.float32)
        first, last = max(start, 0), min(start + length, len(self._pcm))
        if last > first:
            out[first - start : last - start] = self._pcm[first:last]
        return out


def gestures(voice: Voice, seed: int, first_frame: int, count: int) -> F32:
    """Gestures of consecutive frames.

    Args:
        voice: What is heard.
        seed: Session seed.
        first_frame: Index of the first frame; frames before 0 are silent.
        count: Number of frames.

    Returns:
        float32 (count, `CHANNELS`): `NOD` in degrees, `RAISE` as a share of a brow raise, `LIDS` as the closure of a blink; other
        channels are 0.
    """
    values = np.zeros((count, CHANNELS), np.float32)
    start = first_frame - _BEFORE
    levels = levels_of(voice, start, _BEFORE + count + AHEAD)
    if levels.max(initial=0.0) < LEAST_RMS:
        return values
    frames = first_frame + np.arange(count)
    for place in range(MEAN_FRAMES, len(levels) - 1):
        frame = start + place
        if (size := stress_at(levels, place)) and float(hashed_uniform(seed, 410, np.array(frame))) < TAKEN_SHARE:
            moved = size * nod_curve((frames - (frame - LEAD_FRAMES)) / MOTION_FPS)
            values[:, NOD] = np.maximum(values[:, NOD], NOD_DEG * moved)
            values[:, RAISE] = np.maximum(values[:, RAISE], RAISE_MOST * moved)
        if ends_phrase(levels, place) and not blink_cue(seed, frame - CLEAR_FRAMES, 2 * CLEAR_FRAMES).any():
            closed = lid_closure((frames - (frame + BLINK_AFTER)) / MOTION_FPS)
            values[:, LIDS] = np.maximum(values[:, LIDS], closed)
    return values


def levels_of(voice: Voice, first_frame: int, count: int) -> F64:
    """RMS of consecutive frames, float64 (count,)."""
    samples = voice.read(first_frame * SAMPLES_PER_FRAME, count * SAMPLES_PER_FRAME).astype(np.float64)
    levels: F64 = np.sqrt(np.square(samples.reshape(count, SAMPLES_PER_FRAME)).mean(axis=1))
    return levels


def stress_at(levels: F64, place: int) -> float:
    """How large the gesture of a frame is, 0..1; 0 where there is no stress."""
    level = float(levels[place])
    if level < LEAST_RMS or level < levels[place - 1] or level <= levels[place + 1]:
        return 0.0
    if level <= levels[place - APART_FRAMES : place].max():
        return 0.0
    if (levels[place - 16 : place] > QUIET * level).sum() < _HEARD_FRAMES:
        return 0.0
    lately = levels[place - MEAN_FRAMES : place + 1]
    over = level / float(lately[lately > QUIET * level].mean())
    return 0.0 if over < STRESSED else float(np.clip((over - 1.0) / (FULL - 1.0), 0.0, 1.0))


def ends_phrase(levels: F64, place: int) -> bool:
    """Whether a frame is the first of a pause after a phrase, as far as is known."""
    loud = float(levels[place - MEAN_FRAMES : place].max())
    if loud < LEAST_RMS or place + PAUSE_FRAMES > len(levels):
        return False
    quiet = levels < QUIET * loud
    spoken = (~quiet[place - 16 : place]).sum()
    return bool(not quiet[place - 1] and quiet[place : place + PAUSE_FRAMES].all() and spoken >= SPOKEN_FRAMES)


def nod_curve(age_s: F64) -> F64:
    """Down in `DOWN_S` and up in `UP_S`, 0..1, smooth."""
    down, up = np.clip(age_s / DOWN_S, 0.0, 1.0), np.clip((age_s - DOWN_S) / UP_S, 0.0, 1.0)
    curve: F64 = (0.5 - 0.5 * np.cos(np.pi * down)) * (0.5 + 0.5 * np.cos(np.pi * up))
    return curve
