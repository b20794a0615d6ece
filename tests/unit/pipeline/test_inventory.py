"""What this machine can hold, asked of all who own it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.errors import InvalidInputError
from pipeline.inventory import engine_recipes, find_weights, set_in, weight_sets


def test_sets_of_weights_come_in_a_fixed_order_under_their_own_names() -> None:
    assert list(weight_sets()) == ["face", "ditto", "musetalk", "rife", "rife40"]
    assert all(find_weights(name).name == name for name in weight_sets())
    with pytest.raises(InvalidInputError, match="face, ditto, musetalk, rife, rife40"):
        find_weights("mini")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("ditto_pytorch/models/decoder.pth", "ditto"),
        ("ditto_cfg/v0.4_hubert_cfg_trt.pkl", "ditto"),
        ("musetalkV15/unet.pth", "musetalk"),
        ("RIFEv4.26_0921.zip", "rife"),
        ("face_landmark.tflite", "face"),
    ],
)
def test_a_folder_tells_which_set_it_holds(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(b"x")
    assert set_in(tmp_path).name == name


def test_a_folder_that_could_be_two_sets_or_none_asks_for_a_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as none:
        set_in(tmp_path)
    assert none.value.field == "DIR"
    (tmp_path / "flownet.pkl").write_bytes(b"x")
    with pytest.raises(InvalidInputError, match="rife, rife40") as two:
        set_in(tmp_path)
    assert two.value.field == "--name"


def test_engines_have_names_of_their_own() -> None:
    names = [recipe.name for recipe in engine_recipes()]
    assert len(set(names)) == len(names) and names[0] == "ditto/post_warp_decoder" and names[-1] == "rife/4.25/block4"
    assert all(recipe.known_as["engine"] == recipe.name and recipe.known_as["what"] for recipe in engine_recipes())
