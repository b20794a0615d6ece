from __future__ import annotations

from pathlib import Path

import pytest

from engines.weights import WeightsFileError
from kernels.errors import InvalidInputError
from pipeline.families import FAMILIES, find_family
from pipeline.local import LocalPipeline, register_source


def test_every_family_is_found_and_others_are_refused() -> None:
    for name in FAMILIES:
        assert find_family(name).facts.sets_up == (name == "ditto")
    with pytest.raises(InvalidInputError, match="mini, ditto"):
        find_family("wav2lip")


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
