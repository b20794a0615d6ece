"""Which TensorRT library is found, and what is said where none is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engines.tensorrt import library as library_module
from engines.tensorrt import target as target_module
from engines.tensorrt.errors import TensorRtMissingError
from engines.tensorrt.library import Absence, Library, find_library, look_for, shared_libraries
from engines.tensorrt.target import choose_target, parse_capability
from kernels.errors import InvalidInputError
from tests.support.tensorrt import fake_library


def importer_of(**modules: Any) -> Any:
    def load(name: str) -> Any:
        if name not in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        found = modules[name]
        if isinstance(found, Exception):
            raise found
        return found

    return load


def test_the_classic_library_is_found() -> None:
    found = look_for("tensorrt", importer_of(tensorrt=SimpleNamespace(__version__="10.15.1")))
    assert isinstance(found, Library) and found.version == "10.15.1" and not found.portable
    assert found.capabilities() == ()


def test_bindings_without_the_meta_package_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "shared_libraries", lambda flavour: (Path("a.so"), Path("b.so")))
    loaded: list[Path] = []
    importer = importer_of(tensorrt_rtx_bindings=SimpleNamespace(__version__="1.7.1.116"))
    found = look_for("tensorrt_rtx", importer, loaded.append)
    assert isinstance(found, Library) and found.portable
    assert loaded[:2] == [Path("a.so"), Path("b.so")]  # before the bindings, in this order


@pytest.mark.parametrize("version", ["10.14.3", "8.6.1", "12.0.0"])
def test_a_version_out_of_range_is_refused_by_name(version: str) -> None:
    found = look_for("tensorrt", importer_of(tensorrt=SimpleNamespace(__version__=version)))
    assert isinstance(found, Absence) and version in found.reason and "10.15" in found.reason


def test_a_library_that_does_not_load_says_why() -> None:
    found = look_for("tensorrt", importer_of(tensorrt=ImportError("libnvinfer.so.10: cannot open shared object file")))
    assert isinstance(found, Absence) and "libnvinfer.so.10" in found.reason and "pip install" in found.advice


def test_shared_libraries_come_from_one_package_and_are_the_newest(tmp_path: Path) -> None:
    half, whole = tmp_path / "half", tmp_path / "whole"
    for folder, names in (
        (half, ["libtensorrt_rtx.so.1.7.1"]),
        (whole, ["libtensorrt_rtx.so.1.7.1", "libtensorrt_rtx.so.1.10.0", "libtensorrt_onnxparser_rtx.so.1.10.0"]),
    ):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    folders = {"tensorrt_rtx_libs": half, "onnxruntime_ep_nv_tensorrt_rtx": whole}
    found = shared_libraries("tensorrt_rtx", folders.get)
    assert [path.name for path in found] == ["libtensorrt_rtx.so.1.10.0", "libtensorrt_onnxparser_rtx.so.1.10.0"]
    assert shared_libraries("tensorrt_rtx", lambda name: None) == ()
    assert shared_libraries("tensorrt", folders.get) == ()


def test_the_classic_library_is_preferred_on_a_gpu_and_not_looked_for_without(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = {"tensorrt": fake_library("10.15.0", "tensorrt"), "tensorrt_rtx": fake_library()}
    monkeypatch.setattr(library_module, "look_for", libraries.get)
    assert find_library(has_gpu=True).flavour == "tensorrt"
    assert find_library(has_gpu=False).flavour == "tensorrt_rtx"
    assert find_library("tensorrt", has_gpu=False).flavour == "tensorrt"


def test_nothing_here_names_both_and_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "look_for", lambda flavour: Absence(flavour, "not installed", f"get {flavour}"))
    with pytest.raises(TensorRtMissingError) as error:
        find_library(has_gpu=True)
    assert "tensorrt is not installed" in str(error.value) and "get tensorrt_rtx" in str(error.value)


@pytest.mark.parametrize("text", ["sm_120", "SM120", "sm120"])
def test_capabilities_are_read(text: str) -> None:
    assert parse_capability(text) == "sm_120"


@pytest.mark.parametrize("text", ["", "120", "sm_12.0", "sm_1", "compute_90", "sm_9999"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="sm_120"):
        parse_capability(text)


def test_a_target_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "_local_capability", lambda device: None)
    target = choose_target(fake_library(), "sm_120")
    assert (target.capability, target.card, target.here) == ("sm_120", "any", False)
    with pytest.raises(InvalidInputError, match=r"sm_80, sm_120"):
        choose_target(fake_library(), "sm_90")
    with pytest.raises(InvalidInputError, match="only for the card"):
        choose_target(fake_library("10.15", "tensorrt"), "sm_120")
    with pytest.raises(TensorRtMissingError, match="--for"):
        choose_target(fake_library())


def test_a_card_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "_local_capability", lambda device: "sm_90")
    monkeypatch.setattr(target_module.torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    target = choose_target(fake_library("10.15", "tensorrt"))
    assert (target.capability, target.card, target.here) == ("sm_90", "NVIDIA H200", True)
    with pytest.raises(TensorRtMissingError, match="does not run on sm_90"):
        choose_target(fake_library())
