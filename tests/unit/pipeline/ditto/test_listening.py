"""A Ditto face that listens: its head nods by degrees, whatever its picture's logits are; a template video's head does not."""

from __future__ import annotations

import numpy as np
import pytest

from engines.motion_layout import EXP, MOTION_DIM, PITCH, bin_centres_deg
from kernels.arrays import F32
from pipeline.ditto.behaviour import logit_slope
from pipeline.ditto.family import FAMILY
from pipeline.expression.looks import CHANNELS, NOD, RAISE
from tests.support.ditto_avatar import still_avatar, video_avatar


def values(nod: float = 0.0, raised: float = 0.0) -> F32:
    found = np.zeros((3, CHANNELS), np.float32)
    found[:, NOD], found[:, RAISE] = nod, raised
    return found


def angle(logits: F32) -> float:
    share = np.exp(logits - logits.max())
    return float((share / share.sum() * bin_centres_deg().numpy()).sum())


@pytest.mark.parametrize(("at", "spread"), [(0.0, 2.0), (8.0, 3.0), (-12.0, 5.0)])
def test_a_nod_is_so_many_degrees_whatever_the_source_s_head_does(at: float, spread: float) -> None:
    logits = (-0.5 * np.square((bin_centres_deg().numpy() - at) / spread)).astype(np.float32)
    assert angle(logits + 2.5 * logit_slope(logits)) - angle(logits) == pytest.approx(2.5, abs=0.05)


def test_pictures_nod_and_template_videos_do_not() -> None:
    assert FAMILY.listens
    motion = np.zeros((3, MOTION_DIM), np.float32)
    still = FAMILY.express(motion, values(2.0), still_avatar())
    assert np.abs(still[:, PITCH]).max() > 0.01 and not np.delete(still, np.r_[PITCH], axis=1).any()
    assert not FAMILY.express(motion, values(2.0), video_avatar()).any()
    raised = FAMILY.express(motion, values(raised=0.14), video_avatar())
    assert np.abs(raised[:, EXP]).max() > 0.003, "brows rise in both"
