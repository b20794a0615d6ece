"""From features to the rows that the renderer draws: what stands in for a motion stage, which this family does not have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engines.musetalk import FAMILY
from kernels.arrays import F32
from kernels.errors import ShapeError
from pipeline.musetalk.audio_features import ROWS_AFTER
from pipeline.musetalk.audio_windows import NO_ROW, ROW_DIM, ROWS_BEFORE, WINDOW_ROWS, windows_of
from pipeline.musetalk.bypass import Bypass
from pipeline.musetalk.face_rows import pack_rows
from pipeline.stages import Carry, foreign_carry
from pipeline.types import ROWS_PER_FRAME, FeatureRows, MotionChunk


@dataclass(frozen=True)
class MuseTalkCarry:
    """What a session carries: which frame comes next, and whether silence is bypassed."""

    next_frame: int
    epoch: int
    bypass: Bypass
    family: str = FAMILY
    version: str = ""


def start_carry(history: F32, first_frame: int, epoch: int) -> MuseTalkCarry:
    """The carry of speech that starts now; the share goes on from the frame shown before.

    Args:
        history: float32 (n, 19202), n >= 1, rows shown so far.
        first_frame: Index of the first frame to be made.
        epoch: Session epoch.
    """
    shown = float(history[-1, 0]) if len(history) else 0.0
    return MuseTalkCarry(first_frame, epoch, Bypass(weight=min(max(shown, 0.0), 1.0)))


def frames_of(rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, MuseTalkCarry]:
    """One hop of rows for the renderer; see `pipeline.family.Family.pass_on`.

    Rows before the session's first sample count as zeros, as the networks were trained.

    Raises:
        CarryError: A carry of another family.
        ShapeError: Features of another shape.
    """
    if not isinstance(carry, MuseTalkCarry):
        raise foreign_carry(carry, FAMILY)
    features, edges = rows.rows, ROWS_BEFORE + ROWS_AFTER
    own = len(features) - edges
    if features.ndim != 2 or features.shape[1] != ROW_DIM + 1 or own <= 0 or own % ROWS_PER_FRAME:
        raise ShapeError("rows", str(features.shape), f"({edges} + {ROWS_PER_FRAME} * n, {ROW_DIM + 1})")
    index = np.arange(0, own, ROWS_PER_FRAME)[:, None] + np.arange(WINDOW_ROWS)
    index[index + (rows.first_row - ROWS_BEFORE) < 0] = NO_ROW
    shares, bypass = carry.bypass.step(features[ROWS_BEFORE : ROWS_BEFORE + own : ROWS_PER_FRAME, ROW_DIM])
    motion = pack_rows(shares, windows_of(features[:, :ROW_DIM], index))
    return MotionChunk(motion, carry.next_frame), replace(
        carry, next_frame=carry.next_frame + len(motion), bypass=bypass
    )
