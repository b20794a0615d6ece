"""The Ditto renderer's networks against stored outputs of the reference, and their names against the public checkpoints'."""

from __future__ import annotations

import pytest
import torch

from benchmarks.ditto.formula import FILL, SALT, filled
from tests.golden.support import assert_golden, golden, manifest_shapes, normal, uniform, warped


@pytest.fixture(autouse=True)
def no_gradients() -> object:
    with torch.inference_mode():
        yield


def portrait(network: str) -> torch.Tensor:
    picture = FILL.int_image(f"{network}/image", 256, 256, 3, SALT)
    return torch.from_numpy(picture).permute(2, 0, 1)[None] / 255.0


@pytest.mark.parametrize(
    "network", ["appearance_extractor", "motion_extractor", "warp_network", "decoder", "stitch_network"]
)
def test_names_and_shapes_are_those_of_the_public_checkpoint(network: str) -> None:
    from engines.networks import build

    assert {k: tuple(v.shape) for k, v in build(f"ditto/{network}").state_dict().items()} == manifest_shapes(network)


def test_appearance_extractor() -> None:
    volume = filled("appearance_extractor")(portrait("appearance_extractor"))
    assert_golden(golden("appearance_extractor"), "f_s", volume, 5e-4)


def test_motion_extractor() -> None:
    info = filled("motion_extractor")(portrait("motion_extractor"))
    assert info._fields == ("pitch", "yaw", "roll", "t", "exp", "scale", "kp")
    for name, value in info._asdict().items():
        assert_golden(golden("motion_extractor"), name, value, 1e-4)


def test_stitch_network() -> None:
    source = uniform("stitch_network/kp_source", (3, 21, 3), -0.7, 0.7)
    driving = source + normal("stitch_network/kp_delta", (3, 21, 3), 0.06)
    assert_golden(golden("stitch_network"), "out", filled("stitch_network")(source, driving), 1e-4)


def test_warp_network() -> None:
    run, stored = warped(), golden("warp_network")
    assert_golden(stored, "deformation", run.motion.deformation, 5e-4)
    assert_golden(stored, "mask", run.motion.mask, 5e-4)
    assert_golden(stored, "occlusion_map", run.motion.occlusion, 5e-4)
    assert_golden(stored, "out", run.out, 5e-4)
    far = [uniform(f"warp_network/{name}", (1, 21, 3), -1.6, 1.6) for name in ("kp_source_far", "kp_driving_far")]
    assert_golden(stored, "out_far", filled("warp_network")(run.volume, *far), 5e-4)


def test_decoder() -> None:
    picture = filled("decoder")(normal("decoder/feature", (1, 256, 64, 64), 0.7))
    assert_golden(golden("decoder"), "image", picture, 1e-4)
