"""The painter's TensorRT engines from a narrow configuration: exported, compared, parsed, and built in three ranges of batches."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.musetalk.checkpoint_folder import NARROW_UNET
from engines.musetalk.checkpoints import load_taesd
from engines.musetalk.engine_modules import DecoderEngine, UnetEngine
from engines.musetalk.libraries import library
from engines.musetalk.painter import Painter
from engines.musetalk.painter_runtime import TensorRtPainter, example, painter_runtime
from engines.musetalk.recipes import NETWORK_RECIPES, RANGES, TAESD_SPEC, UNET_SPEC
from engines.tensorrt.build import profiles_of
from engines.tensorrt.errors import TensorRtMissingError
from engines.tensorrt.library import find_library
from engines.tensorrt.load import EngineSettings, find_plan
from engines.tensorrt.spec import EngineSpec
from engines.tensorrt.target import choose_target
from tests.support.musetalk import narrow_folder, need_libraries
from tests.support.tensorrt import elsewhere, real_library


@functools.cache
def smallest_unet() -> nn.Module:
    """Two levels and one transformer, in the middle: a graph that is exported in seconds, with every kind of part."""
    need_libraries()
    plain = {
        "down_block_types": ["DownBlock2D"] * 2,
        "up_block_types": ["UpBlock2D"] * 2,
        "block_out_channels": [16, 32],
    }
    unet: nn.Module = library("diffusers").UNet2DConditionModel(**{**NARROW_UNET, **plain})
    return unet.eval().requires_grad_(False)


def modules() -> dict[EngineSpec, nn.Module]:
    decoder = DecoderEngine(load_taesd(narrow_folder())).eval()
    return {UNET_SPEC: UnetEngine(smallest_unet()).eval(), TAESD_SPEC: decoder}


def test_the_modules_are_the_painter() -> None:
    painter = Painter(smallest_unet(), load_taesd(narrow_folder()))
    unet, decoder = (module.eval() for module in modules().values())
    with torch.inference_mode():
        made = TensorRtPainter(lambda *given: (unet(*given),), lambda *given: (decoder(*given),))(*example(2))
        assert (made.int() - painter(*example(2)).int()).abs().max() <= 1


def test_three_ranges_hold_every_batch_from_1_to_64() -> None:
    held = [batch for least, best, most in RANGES for batch in range(least, most + 1) if least <= best <= most]
    assert held == list(range(1, 65))
    assert [UNET_SPEC.range_of(batch) for batch in (1, 4, 5, 16, 17, 64)] == [0, 0, 1, 1, 2, 2]
    shapes = [profile["tokens"] for profile in profiles_of(UNET_SPEC)]
    assert shapes == [tuple((batch, 50, 384) for batch in one) for one in RANGES]
    assert [recipe.known_as["batch"] for recipe in NETWORK_RECIPES] == ["1..64", "1..64"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(UNET_SPEC, id="unet", marks=pytest.mark.nightly("torch's exporter takes half of a minute")),
        pytest.param(TAESD_SPEC, id="taesd"),
    ],
)
def test_a_narrow_engine_is_exported_parsed_and_built(spec: EngineSpec, tmp_path: Path) -> None:
    plan = find_plan(spec, modules()[spec], real_library(), elsewhere(), EngineSettings(folder=tmp_path))
    assert plan.built and len(plan.data) > 10_000


@pytest.mark.gpu
def test_the_painter_runs_over_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU that the installed library supports: a named runtime must verify against eager, or the stage does not start."""
    try:
        choose_target(find_library(has_gpu=True))
    except TensorRtMissingError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    painter = Painter(smallest_unet(), load_taesd(narrow_folder()))
    runtime = painter_runtime(painter, "cuda", "tensorrt", 4)
    assert runtime.name == "tensorrt"
    for count in (1, 3, 6):
        made = runtime.run(*example(count))
        assert made.shape == (count, 256, 256, 3) and torch.equal(runtime.run(*example(count)), made)
