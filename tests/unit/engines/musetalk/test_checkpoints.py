"""MuseTalk's checkpoint folders: public names and shapes, both layouts, old names, and faults as typed errors."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engines.musetalk import checkpoints
from engines.musetalk.checkpoints import (
    PARSER_FILE,
    UNETS,
    check_networks,
    load_parser,
    load_taesd,
    load_unet,
    load_vae,
    load_whisper,
    new_attention_names,
    taesd_decoder_names,
    unet_files,
)
from engines.musetalk.config_files import TAESD, UNET, VAE, WHISPER, read_config
from engines.musetalk.libraries import ExtraMissingError, library
from engines.musetalk.version import latents_version, speech_version
from engines.musetalk.weights import CHECKPOINTS
from engines.weights.file import WeightsFileError
from engines.weights.inventory import weights_status
from engines.weights.pull import import_weights, pull
from engines.weights.sets import HubGroup, HubSource
from pipeline.inventory import set_in
from tests.support.fake_hub import serve_hub
from tests.support.musetalk import narrow_folder, need_libraries

MANIFESTS = Path(__file__).resolve().parents[3] / "data" / "musetalk" / "manifests"


def manifest(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((MANIFESTS / f"manifest_{name}.json").read_text(encoding="utf-8"))
    return content


def shapes(module: torch.nn.Module) -> dict[str, list[int]]:
    return {key: list(value.shape) for key, value in module.state_dict().items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A private copy of the narrow folder."""
    return Path(shutil.copytree(narrow_folder(), tmp_path / "models"))


def test_both_libraries_work_beside_our_package_kernels() -> None:
    need_libraries()
    import kernels

    own = Path(kernels.__file__).resolve().parent
    assert own == Path(__file__).resolve().parents[4] / "kernels"
    assert not library("transformers.utils").is_kernels_available(), "ours is not the package of that name on the hub"
    assert library("diffusers").UNet2DConditionModel and library("transformers").WhisperModel
    assert Path(kernels.__file__).resolve().parent == own and not hasattr(kernels, "get_kernel")


@pytest.mark.parametrize(
    ("name", "network", "config"),
    [
        ("unet_musetalk", "UNet2DConditionModel", UNET),
        ("sd_vae_ft_mse", "AutoencoderKL", VAE),
        ("taesd_autoencodertiny", "AutoencoderTiny", TAESD),
    ],
)
def test_names_and_shapes_are_those_of_the_public_checkpoints(name: str, network: str, config: Any) -> None:
    need_libraries()
    with torch.device("meta"):
        module = getattr(library("diffusers"), network)(**config)
    listed = manifest(name)
    assert shapes(module) == listed["tensors"]
    assert sum(value.numel() for value in module.parameters()) == listed["params"]


def test_the_speech_encoder_is_that_of_whisper_tiny() -> None:
    need_libraries()
    with torch.device("meta"):
        config = library("transformers").WhisperConfig(**WHISPER)
        module = library("transformers.models.whisper.modeling_whisper").WhisperEncoder(config)
    assert shapes(module) == manifest("whisper_tiny_encoder")["tensors"]


def test_the_original_decoder_s_names_lead_to_the_library_s() -> None:
    original, tiny = manifest("taesd_original_pth")["decoder"], manifest("taesd_autoencodertiny")["tensors"]
    renamed = taesd_decoder_names({key: torch.empty(shape, device="meta") for key, shape in original.items()})
    wanted = {key.removeprefix("decoder."): shape for key, shape in tiny.items() if key.startswith("decoder.")}
    assert {key: list(value.shape) for key, value in renamed.items()} == wanted
    whole = taesd_decoder_names({key: torch.empty(shape, device="meta") for key, shape in tiny.items()})
    assert {key: list(value.shape) for key, value in whole.items()} == wanted


def test_the_public_configurations_are_those_of_the_manifests() -> None:
    for name, known in (("unet_musetalk", UNET), ("sd_vae_ft_mse", VAE), ("taesd_autoencodertiny", TAESD)):
        listed = manifest(name)["config"]
        assert {key: listed[key] for key in known} == dict(known)


def test_every_network_is_loaded_and_said(folder: Path) -> None:
    assert check_networks(folder) == (
        "painter: musetalkV15/unet.pth",
        "decoder: TAESD",
        "face parser: BiSeNet",
    )
    for module in (load_unet(folder), load_vae(folder), load_taesd(folder), load_whisper(folder), load_parser(folder)):
        assert not module.training and not any(p.requires_grad or p.is_meta for p in module.parameters())
        assert not any(buffer.is_meta for buffer in module.buffers())


def test_what_may_be_missing_is_said(folder: Path) -> None:
    shutil.rmtree(folder / "taesd")
    (folder / PARSER_FILE).unlink()
    _, decoder, parser = check_networks(folder)
    assert "autoencoder's own" in decoder and "our own mesh" in parser


def test_version_1_0_is_read_where_1_5_is_not_there(folder: Path) -> None:
    (folder / "musetalk").mkdir()
    for new, old in zip(*UNETS, strict=True):
        (folder / new).rename(folder / old)
    assert unet_files(folder).weights == folder / UNETS[1][0]
    assert shapes(load_unet(folder)) == shapes(load_unet(narrow_folder()))


def test_the_old_autoencoder_is_what_the_library_itself_reads(folder: Path) -> None:
    config = json.loads((folder / "sd-vae/config.json").read_text())
    (folder / "sd-vae/config.json").write_text(json.dumps({"_class_name": "AutoencoderKL", **config}))
    theirs = library("diffusers").AutoencoderKL.from_pretrained(folder / "sd-vae", use_safetensors=False).state_dict()
    ours = load_vae(folder).state_dict()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_one_by_one_convolutions_of_old_attention_become_matrices() -> None:
    old = {
        "encoder.mid_block.attentions.0.query.weight": torch.ones(4, 4, 1, 1),
        "encoder.conv_in.weight": torch.ones(4, 4, 1, 1),
    }
    made = new_attention_names(old)
    assert made["encoder.mid_block.attentions.0.to_q.weight"].shape == (4, 4)
    assert made["encoder.conv_in.weight"].shape == (4, 4, 1, 1)


def test_both_layouts_of_the_small_decoder_paint_the_same(folder: Path) -> None:
    from safetensors.torch import save_file

    original = load_taesd(folder)
    state = {f"decoder.{key}": value.clone() for key, value in original.state_dict().items()}
    save_file(state | {"encoder.layers.0.weight": torch.zeros(8, 3, 3, 3)}, folder / checkpoints.TAESD_FILES[0])
    latents = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(load_taesd(folder)(latents), original(latents))
    picture = original(latents)
    assert picture.shape == (1, 3, 64, 64) and float(picture.std()) > 0.01


def test_half_precision_files_are_accepted(folder: Path) -> None:
    path = folder / UNETS[0][0]
    torch.save({key: value.half() for key, value in torch.load(path, weights_only=True).items()}, path)
    assert next(load_unet(folder).parameters()).dtype == torch.float32


def test_the_face_parser_sees_what_it_is_shown(folder: Path) -> None:
    parser = load_parser(folder)
    rng = np.random.default_rng(0)
    picture = torch.from_numpy(rng.random((1, 3, 64, 96), np.float32))
    classes = parser(picture)
    assert classes.shape == (1, 64, 96) and classes.min() >= 0 and classes.max() < 19 and len(classes.unique()) > 1
    both = parser(torch.cat([picture, picture.flip(3)]))
    assert torch.equal(both[:1], classes), "pictures do not see each other"


def test_the_public_face_parser_has_the_size_that_is_published() -> None:
    from engines.networks import build

    with torch.device("meta"):
        module = build("musetalk/face_parser")
    state = module.state_dict()
    assert 13.2e6 < sum(value.numel() for value in module.parameters()) < 13.4e6
    assert state["cp.resnet.layer4.1.bn2.running_var"].shape == (512,) and state["ffm.conv1.weight"].shape == (
        64,
        256,
        1,
        1,
    )
    assert state["conv_out.conv_out.weight"].shape == (19, 256, 1, 1)
    assert state["conv_out16.conv.conv.weight"].shape == (64, 128, 3, 3)


def refused(folder: Path, match: str) -> None:
    with pytest.raises(WeightsFileError, match=match) as caught:
        check_networks(folder)
    assert caught.value.path.startswith(str(folder))


def change_unet(folder: Path, change: Any) -> None:
    path = folder / UNETS[0][0]
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


def test_faults_of_weights_name_the_file_and_the_tensor(folder: Path) -> None:
    change_unet(folder, lambda state: state.update({"conv_in.bias": torch.full((32,), float("nan"))}))
    refused(folder, "conv_in.bias: contains NaN")
    change_unet(folder, lambda state: state.update({"conv_in.bias": torch.zeros(31)}))
    refused(folder, "conv_in.bias: has shape")
    change_unet(folder, lambda state: state.pop("conv_in.bias"))
    refused(folder, "conv_in.bias: is missing")
    change_unet(folder, lambda state: state.update({"conv_in.bias": torch.zeros(32), "other": torch.zeros(1)}))
    refused(folder, "other: is not part")
    (folder / UNETS[0][0]).write_bytes(b"PK\x03\x04 nothing")
    refused(folder, "damaged or cut short")
    (folder / UNETS[0][0]).unlink()
    refused(folder, "weights pull musetalk")


def test_a_checkpoint_that_asks_for_code_is_refused(folder: Path) -> None:
    import os

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.system, ("true",))

    torch.save({"conv_in.bias": Evil()}, folder / UNETS[0][0])
    refused(folder, "is refused: it asks for")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "is no JSON"),
        ("[]", "not a JSON object"),
        ('{"layers_per_block": "two"}', "layers_per_block: is 'two'"),
        ('{"layers_per_block": true}', "layers_per_block: is 'True'"),
        ('{"block_out_channels": [99999]}', "block_out_channels: is '99999'"),
        ('{"block_out_channels": 3}', "block_out_channels: is '3'"),
        ('{"act_fn": 3}', "act_fn: is '3'"),
        (" " * 70_000, "larger than"),
    ],
)
def test_faults_of_a_configuration_name_the_option(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "musetalk.json"
    path.write_text(text)
    with pytest.raises(WeightsFileError, match=match):
        read_config(path, UNET)


def test_what_a_configuration_does_not_say_is_as_usual(tmp_path: Path) -> None:
    path = tmp_path / "musetalk.json"
    assert read_config(path, UNET) == dict(UNET)
    path.write_text('{"_diffusers_version": "0.6.0", "layers_per_block": 1}')
    assert read_config(path, UNET) == {**UNET, "layers_per_block": 1}


def test_a_missing_library_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "diffusers", None)
    with pytest.raises(ExtraMissingError, match="install the extra `musetalk`"):
        library("diffusers")


def test_versions_follow_what_they_stand_for(folder: Path) -> None:
    before = latents_version(folder), speech_version(folder)
    change_unet(folder, lambda state: state.update({"conv_in.bias": torch.zeros(32)}))
    assert (latents_version(folder), speech_version(folder)) == before
    path = folder / "sd-vae/diffusion_pytorch_model.bin"
    state = torch.load(path, weights_only=True)
    state["encoder.conv_in.bias"] += 1
    torch.save(state, path)
    assert latents_version(folder) != before[0] and speech_version(folder) == before[1]
    path.unlink()
    with pytest.raises(WeightsFileError, match="weights pull musetalk"):
        latents_version(folder)


def test_a_folder_is_recognised_imported_and_verified(folder: Path, tmp_path: Path) -> None:
    assert set_in(folder) == CHECKPOINTS
    (folder / "notes.txt").write_text("not ours")
    result = import_weights(folder, CHECKPOINTS, tmp_path / "home")
    assert not (result.folder / "notes.txt").exists() and check_networks(result.folder) == check_networks(folder)
    assert weights_status(CHECKPOINTS, tmp_path / "home").present
    (result.folder / PARSER_FILE).write_bytes(b"x")
    assert "79999_iter.pth is truncated" in str(weights_status(CHECKPOINTS, tmp_path / "home"))


def test_repositories_are_pulled_each_into_its_folder(tmp_path: Path) -> None:
    files = {"a/unet.pth": b"u" * 90, "config.json": b"{}", "other.bin": b"no", "weights.bin": b"w" * 70}
    group = HubGroup(
        (("", HubSource("o/r", "main", ("a/*.pth",))), ("vae", HubSource("o/r", "main", ("*.json", "w*.bin"))))
    )
    entry = replace(CHECKPOINTS, source=group)
    assert group.allow_patterns == ("a/*.pth", "vae/*.json", "vae/w*.bin") and group.label.startswith("o/r, o/r")
    with serve_hub("o/r", files) as hub:
        result = pull(entry, tmp_path, hub_endpoint=hub.endpoint)
    there = {path.relative_to(result.folder).as_posix() for path in result.folder.rglob("*") if path.is_file()}
    assert {"a/unet.pth", "vae/config.json", "vae/weights.bin", "record.json"} <= there and "other.bin" not in str(
        there
    )
    assert weights_status(entry, tmp_path).present
    (result.folder / "vae/weights.bin").write_bytes(b"w" * 69 + b"x")
    assert "vae/weights.bin is altered" in str(weights_status(entry, tmp_path))
