from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deployments.host.avatars import check_family
from engines.weights.file import WeightsFileError
from kernels.errors import InvalidInputError
from pipeline.families import FAMILIES, find_family
from pipeline.family import ALL_STAGES
from pipeline.session.local_job import LocalPipeline, register_source
from pipeline.stages import AudioFacts, MotionFacts
from pipeline.types import Avatar, FaceRect, FeatureRows


def test_every_family_is_found_and_others_are_refused() -> None:
    for name in FAMILIES:
        family = find_family(name)
        moves = "motion_diffusion" in family.stages
        info = family.info(AudioFacts(640, 1920), MotionFacts(10, 30) if moves else None)
        assert family.name == info.family == name and info.passes_rows_on == (not moves)
        assert (info.context_samples, info.lookahead_samples) == (640, 1920)
        assert (info.hop_frames, info.history_frames) == ((10, 30) if moves else (5, 1))
        assert info.sets_up == (name == "ditto") and info.doubles_in_motion_space == (name == "mini")
    with pytest.raises(InvalidInputError, match="mini, ditto"):
        find_family("wav2lip")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_shares_one_gpu_among_the_stages_that_it_has(name: str) -> None:
    family = find_family(name)
    assert set(family.gpu_shares) == {*family.stages, "rife"} and set(family.stages) <= set(ALL_STAGES)
    assert sum(family.gpu_shares.values()) <= 1.0 + 1e-9
    assert (family.folder(Path("/data")) is None) == (not family.weights)


def test_a_family_answers_for_what_it_has_not() -> None:
    mini = find_family("mini")
    with pytest.raises(LookupError, match="mini has a stage motion_diffusion"):
        mini.pass_on(FeatureRows(np.zeros((2, 4), np.float32), 50, 0), None)  # type: ignore[arg-type]  # never looked at
    assert mini.engines() == () and mini.weights == () and find_family("ditto").embedded() is None
    assert "embedded weights" in (mini.embedded() or "")


def test_a_family_without_its_weights_says_which_file_is_missing(tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path)
    with pytest.raises(WeightsFileError, match="hubert_streaming_fix_kv.onnx.*no such file"):
        pipeline.stages_of("ditto")
    with pytest.raises(InvalidInputError, match="family"):
        register_source(tmp_path / "a.jpg", home=tmp_path, family="none")
    pipeline.close()


def test_the_stages_of_mini_are_the_pipeline_s_own(tmp_path: Path) -> None:
    pipeline = LocalPipeline(tmp_path)
    assert pipeline.stages_of("mini") is pipeline.stages
    pipeline.close()


def test_an_avatar_of_another_family_is_refused_by_name() -> None:
    avatar = Avatar(
        avatar_id="a" * 32,
        family="mini",
        name="Evening news",
        canvas_rgb=np.zeros((2, 2, 3), np.uint8),
        rect=FaceRect(0, 0, 2, 2),
        crop_to_canvas=np.zeros((2, 3), np.float32),
        mask=np.zeros((512, 512), np.float32),
        tensors={},
    )
    assert check_family(avatar, "mini") is avatar
    with pytest.raises(InvalidInputError, match="Evening news was registered for mini"):
        check_family(avatar, "ditto")
