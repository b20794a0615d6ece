"""The condition of every frame: audio, emotion, eyes, face shape; 1103 numbers (ditto.md section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.ditto.motion_fields import mirror_index

EMOTIONS: Final = ("Angry", "Disgust", "Fear", "Happy", "Neutral", "Sad", "Surprise", "Contempt")
_EMOTION_LOGIT: Final = 8.0

Emotion = int | Sequence[int] | Sequence[Sequence[int]] | F32
"""A class, several blended, a sequence of blends (one per frame, cycled), or an array (m, 8) used as it is."""


def emotion_vector(classes: Sequence[int]) -> F32:
    """Softmax of zeros with 8 at every chosen class, float32 (8,).

    Raises:
        InvalidInputError: A class outside 0..7.
    """
    if any(not 0 <= index < len(EMOTIONS) for index in classes) or not classes:
        raise InvalidInputError("emo", str(list(classes)), f"one or more of 0 to {len(EMOTIONS) - 1}")
    logits = np.zeros(len(EMOTIONS), np.float32)
    logits[list(classes)] = _EMOTION_LOGIT
    weights = np.exp(logits - logits.max())
    share: F32 = (weights / weights.sum()).astype(np.float32)
    return share


def emotion_sequence(emotion: Emotion) -> F32:
    """Any accepted form -> float32 (m, 8)."""
    if isinstance(emotion, np.ndarray):
        return np.asarray(emotion, np.float32).reshape(-1, len(EMOTIONS))
    if isinstance(emotion, int):
        return emotion_vector([emotion])[None]
    blends = [item if isinstance(item, Sequence) else None for item in emotion]
    if all(blend is None for blend in blends):
        return emotion_vector([item for item in emotion if isinstance(item, int)])[None]
    return np.stack([emotion_vector(blend) for blend in blends if blend is not None])


@dataclass(frozen=True)
class Condition:
    """What stays the same in a session.

    Attributes:
        emotion: float32 (m, 8), one row per frame, cycled.
        eye_open: float32 (n, 2) of the source frames, left and right.
        eye_ball: float32 (n, 6) of the source frames.
        shape: float32 (63,), canonical keypoints of the first source frame.
    """

    emotion: F32
    eye_open: F32
    eye_ball: F32
    shape: F32

    def rows(self, audio: F32, first_frame: int) -> F32:
        """Condition rows.

        Args:
            audio: float32 (t, 1024), one row per frame.
            first_frame: Index of the first frame; negative during the silent lead-in of a live session.

        Returns:
            float32 (t, 1103).
        """
        frames = range(first_frame, first_frame + len(audio))
        source = [mirror_index(i, len(self.eye_open)) for i in frames]
        emotion = self.emotion[[max(i, 0) % len(self.emotion) for i in frames]]
        shape = np.repeat(self.shape[None], len(audio), axis=0)
        return np.concatenate([audio, emotion, self.eye_open[source], self.eye_ball[source], shape], axis=1)
