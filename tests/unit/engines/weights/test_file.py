from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engines.networks import build
from engines.weights.file import WeightsFileError, build_network, load_strictly, read_weights, write_weights

CONFIG = {"cond_dim": 9, "seq_frames": 6, "latent": 64, "heads": 2, "feed_forward": 24, "layers": 1}


@pytest.fixture()
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lmdm.safetensors"
    module = build("mini/lmdm", seed=5, **CONFIG)
    tensors = {**module.state_dict(), "space.mean": torch.zeros(3)}
    write_weights(path, tensors, family="mini", network="mini/lmdm", config=CONFIG, version="v1")
    return path


def read(path: Path) -> object:
    return read_weights(path, family="mini", network="mini/lmdm")


def rewrite(path: Path, header: dict[str, str]) -> None:
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as opened:
        old = dict(opened.metadata())
    save_file(load_file(path), str(path), metadata={**old, **header})


def test_what_was_written_is_read(file: Path) -> None:
    weights = read_weights(file, family="mini", network="mini/lmdm")
    module = build_network(weights, weights.without("space."))
    wanted = build("mini/lmdm", seed=5, **CONFIG)
    for key, value in wanted.state_dict().items():
        torch.testing.assert_close(
            module.state_dict()[key], value.half().float() if value.numel() >= 16_384 and value.dim() >= 2 else value
        )
    assert weights.version == "v1" and list(weights.part("space.")) == ["mean"]


@pytest.mark.parametrize(
    ("header", "match"),
    [
        ({"family": "ditto"}, "family"),
        ({"network": "mini/speech_encoder"}, "network"),
        ({"control_points": "0"}, "control_points"),
        ({"sha256": "00"}, "digest"),
        ({"config": "[1]"}, "config"),
        ({"config": "{"}, "config"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(file: Path, header: dict[str, str], match: str) -> None:
    rewrite(file, header)
    with pytest.raises(WeightsFileError, match=match):
        read(file)


def test_a_changed_tensor_is_noticed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(WeightsFileError, match="damaged"):
        read(file)


@pytest.mark.parametrize("content", [b"", b"not a weights file", pickle.dumps({"weight": [1.0]})])
def test_other_files_are_refused_unread(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightsFileError, match=r"x\.safetensors"):
        read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsFileError, match="no such file"):
        read(tmp_path / "gone.safetensors")


def test_a_header_entry_may_not_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "bare.safetensors"
    save_file({"x": torch.zeros(1)}, str(path))
    with pytest.raises(WeightsFileError, match="family"):
        read(path)


def test_not_a_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nan.safetensors"
    tensors = {"x": torch.tensor([float("nan")])}
    write_weights(path, tensors, family="mini", network="mini/lmdm", config={}, version="v")
    with pytest.raises(WeightsFileError, match="x: contains NaN"):
        read(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.pop("norm_cond.bias"), "norm_cond.bias: is missing"),
        (lambda t: t.update(extra=torch.zeros(1)), "extra: is not part"),
        (lambda t: t.update({"norm_cond.bias": torch.zeros(2)}), r"norm_cond.bias: has shape \(2,\)"),
        (lambda t: t.update({"norm_cond.bias": torch.zeros(64, dtype=torch.int32)}), "norm_cond.bias: has dtype"),
    ],
)
def test_loading_is_strict(change: object, match: str) -> None:
    module = build("mini/lmdm", **CONFIG)
    tensors = dict(module.state_dict())
    change(tensors)  # type: ignore[operator]
    with pytest.raises(WeightsFileError, match=match):
        load_strictly(module, tensors, Path("file"))
