"""Checkpoint folders: what is loaded, and every fault is a typed error that names the file."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.ditto.checkpoint_folder import checkpoint, write_network
from benchmarks.ditto.formula import filled
from engines.ditto.checkpoints import NETWORK_FILES, load_network, read_tensors
from engines.ditto.version import files_version
from engines.weights import version
from engines.weights.file import WeightsFileError
from engines.weights.record import sha256_file


def stitch_state() -> dict[str, torch.Tensor]:
    return dict(filled("stitch_network").state_dict())


def refused(folder: Path, match: str, name: str = "stitch_network") -> None:
    with pytest.raises(WeightsFileError, match=match) as caught:
        load_network(folder, name)
    assert caught.value.path == str(folder / NETWORK_FILES[name])


def test_a_file_is_loaded_under_the_network_s_own_names(tmp_path: Path) -> None:
    write_network(tmp_path, "stitch_network")
    module = load_network(tmp_path, "stitch_network")
    assert not module.training and not any(p.requires_grad for p in module.parameters())
    for key, value in stitch_state().items():
        assert torch.equal(module.state_dict()[key], value)


def test_half_precision_and_the_old_file_format_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / NETWORK_FILES["stitch_network"]
    path.parent.mkdir(parents=True)
    half = {key: value.half() for key, value in stitch_state().items()}
    torch.save(checkpoint("stitch_network", half), path, _use_new_zipfile_serialization=False)
    loaded = load_network(tmp_path, "stitch_network").state_dict()
    assert all(torch.equal(loaded[key], value.float()) for key, value in half.items())


@pytest.mark.parametrize("names", ["all", "one", "none"])
def test_constants_of_the_motion_model_may_be_there_or_not(tmp_path: Path, names: str) -> None:
    state = {key: torch.zeros(3) for key in ("rotary.freqs", "cond_encoder.0.rotary.freqs")}
    kept = {"all": state, "one": {"rotary.freqs": torch.ones(256)}, "none": {}}[names]
    path = tmp_path / NETWORK_FILES["lmdm"]
    path.parent.mkdir(parents=True)
    torch.save({"model_state_dict": {**kept, "final_layer.bias": torch.ones(265)}}, path)
    assert set(read_tensors(path, "lmdm")) == {"final_layer.bias"}


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    refused(tmp_path, "no such file; liveanchor weights pull ditto")
    with pytest.raises(WeightsFileError, match="motion_extractor.*no such file; liveanchor weights pull ditto"):
        files_version(tmp_path, [NETWORK_FILES["motion_extractor"]])


def test_files_are_hashed_once_and_again_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(path: Path) -> str:
        hashed.append(path.name)
        return sha256_file(path)

    monkeypatch.setattr(version, "sha256_file", counted)
    (tmp_path / "a.bin").write_bytes(b"one")
    first = files_version(tmp_path, ["a.bin"])
    assert files_version(tmp_path, ["a.bin"]) == first and hashed == ["a.bin"]
    (tmp_path / "a.bin").write_bytes(b"three")
    assert files_version(tmp_path, ["a.bin"]) != first and len(hashed) == 2


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
def test_a_truncated_file_is_named(tmp_path: Path, zipped: bool, share: float) -> None:
    path = write_network(tmp_path, "stitch_network")
    torch.save(checkpoint("stitch_network", stitch_state()), path, _use_new_zipfile_serialization=zipped)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    refused(tmp_path, "damaged or cut short|is refused")


@pytest.mark.parametrize("content", [b"hello, I am no weights file", b"PK\x03\x04" + bytes(200), bytes(5000)])
def test_what_is_no_checkpoint_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / NETWORK_FILES["stitch_network"]
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    refused(tmp_path, "damaged or cut short|is refused")


def test_wrong_missing_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    state = stitch_state()
    renamed = {key.replace("mlp.0", "mlp.9"): value for key, value in state.items()}
    short = {key: value for key, value in state.items() if key != "mlp.6.bias"}
    turned = {**state, "mlp.2.weight": state["mlp.2.weight"][:, :100].clone()}
    broken = {**state, "mlp.4.bias": torch.full_like(state["mlp.4.bias"], float("nan"))}
    counted = {**state, "mlp.4.bias": torch.zeros(64, dtype=torch.int64)}
    cases = [(renamed, "mlp.0"), (short, "mlp.6.bias"), (turned, "mlp.2.weight"), (broken, "mlp.4.bias: contains NaN")]
    for wrong, match in [*cases, (counted, "mlp.4.bias: has dtype"), ({**state, "extra": torch.zeros(1)}, "extra")]:
        write_network(tmp_path, "stitch_network", wrong)
        refused(tmp_path, match)


def test_entries_that_are_missing_or_no_tensors_are_named(tmp_path: Path) -> None:
    path = write_network(tmp_path, "stitch_network")
    content: Any
    for content, match in (
        ({"retarget_mouth": {}}, "retarget_shoulder: is missing"),
        ({"retarget_shoulder": 3}, "retarget_shoulder: is missing"),
        ([1, 2], "retarget_shoulder"),
        ({"retarget_shoulder": {"module.mlp.0.weight": "text"}}, "is a str, not a tensor"),
    ):
        torch.save(content, path)
        refused(tmp_path, match)
    write_network(tmp_path, "stitch_network").rename(tmp_path / NETWORK_FILES["decoder"])
    refused(tmp_path, "retarget_shoulder: is a dict, not a tensor", "decoder")
    torch.save([1, 2], tmp_path / NETWORK_FILES["decoder"])
    refused(tmp_path, "holds a list", "decoder")


class Runs:
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self._marker),))


@pytest.mark.parametrize("bare", [True, False])
def test_a_checkpoint_that_runs_code_is_refused_and_nothing_runs(tmp_path: Path, bare: bool) -> None:
    path = write_network(tmp_path, "stitch_network")
    marker = tmp_path / "ran"
    if bare:
        path.write_bytes(pickle.dumps(Runs(marker)))
    else:
        torch.save({"retarget_shoulder": Runs(marker)}, path)
    refused(tmp_path, "is refused")
    assert not marker.exists()


def test_torch_s_advice_to_load_it_unsafely_is_not_passed_on(tmp_path: Path) -> None:
    path = write_network(tmp_path, "stitch_network")
    torch.save({"retarget_shoulder": Runs(tmp_path / "ran")}, path)
    with pytest.raises(WeightsFileError, match="mkdir") as caught:
        load_network(tmp_path, "stitch_network")
    assert "weights_only" not in str(caught.value)
