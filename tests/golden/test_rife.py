"""IFNet against stored outputs of the reference networks under the documented weight formula.

`LIVEANCHOR_GOLDEN_DIR` (its `rife` folder) points at another golden set of the same form; a file names its own salt, and
`LIVEANCHOR_GOLDEN_SALT` counts where it names none.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from engines.networks import build
from engines.networks.rife.ifnet import IFNet
from kernels.errors import InvalidInputError, ShapeError
from kernels.sampling.backward_warp import backward_warp
from tests.golden.support import golden_folder

DATA = Path(__file__).resolve().parents[1] / "data" / "rife"
GOLDEN = golden_folder("rife", DATA)
MAX_ERROR, MEAN_ERROR = 5e-5, 1e-6
VERSIONS = ("4.6", "4.9", "4.25")


def load_fill() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rife_fill", DATA / "fill.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILL = load_fill()


def test_there_are_golden_files() -> None:
    assert sorted(GOLDEN.glob("ifnet*.npz")), f"no ifnet*.npz in {GOLDEN}"


def filled(version: str, salt: str, **config: object) -> IFNet:
    net = build(f"rife/{version}", **config)
    shapes = {key: tuple(value.shape) for key, value in net.state_dict().items()}
    net.load_state_dict({k: torch.from_numpy(v) for k, v in FILL.state_dict(shapes, salt).items()})
    assert isinstance(net, IFNet)
    return net


def salt_of(golden: Mapping[str, np.ndarray]) -> str:
    return str(golden["salt"]) if "salt" in golden else os.environ.get("LIVEANCHOR_GOLDEN_SALT", "")


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_and_shapes_are_the_checkpoint_s(version: str) -> None:
    manifest = json.loads((DATA / "manifests" / f"ifnet_{version}.json").read_text(encoding="utf-8"))
    net = build(f"rife/{version}")
    assert {k: list(v.shape) for k, v in net.state_dict().items()} == manifest["tensors"]
    assert sum(p.numel() for p in net.parameters()) == manifest["params"]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("ifnet*.npz")), ids=lambda p: p.stem)
def test_outputs_equal_the_reference(path: Path) -> None:
    golden = np.load(path)
    net = filled(
        str(golden["version"]), salt_of(golden), ensemble=bool(golden["ensemble"]), scale=float(golden["scale"])
    )
    img0, img1 = (torch.from_numpy(FILL.to_chw(golden[name])) for name in ("frame0", "frame1"))
    with torch.inference_mode():
        for j, time in enumerate(golden["timesteps"]):
            error = (net(img0, img1, float(time))[0].numpy()[:, ::2, ::2] - golden[f"t{j}_out_sub"]).__abs__()
            assert error.max() <= MAX_ERROR and error.mean() <= MEAN_ERROR, (error.max(), error.mean())


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("ifnet*.npz")), ids=lambda p: p.stem)
def test_what_every_block_says_is_what_the_reference_s_says(path: Path) -> None:
    """Flow (pixels), logit and carried features of every block: the picture alone forgives much where little moves."""
    golden = np.load(path)
    if bool(golden["ensemble"]):
        pytest.skip("the blocks of an ensemble speak twice")
    net = filled(
        str(golden["version"]), salt_of(golden), ensemble=bool(golden["ensemble"]), scale=float(golden["scale"])
    )
    said: dict[int, list[tuple[torch.Tensor, ...]]] = {}
    for k in range(len(net.scales)):
        block: torch.nn.Module = getattr(net, f"block{k}")
        block.register_forward_hook(lambda _module, _inputs, out, k=k: said.setdefault(k, []).append(out))
    img0, img1 = (torch.from_numpy(FILL.to_chw(golden[name])) for name in ("frame0", "frame1"))
    for j, time in enumerate(golden["timesteps"]):
        said.clear()
        with torch.inference_mode():
            net(img0, img1, float(time))
        for k, calls in said.items():
            for part, step, got in zip(("flow", "mask", "feat"), (8, 8, 16), calls[0], strict=True):
                if (name := f"t{j}_block{k}_{part}_sub") in golden:
                    np.testing.assert_allclose(got[0].numpy()[:, ::step, ::step], golden[name], atol=5e-4, err_msg=name)
                else:
                    assert part == "feat" and got is None, name


def test_every_sample_of_a_batch_has_its_own_time() -> None:
    golden = np.load(DATA / "ifnet49_128x192.npz")
    net = filled("4.9", salt_of(golden))
    img0, img1 = (torch.from_numpy(FILL.to_chw(golden[name])) for name in ("frame0", "frame1"))
    times = torch.tensor(golden["timesteps"], dtype=torch.float32)
    with torch.inference_mode():
        out = net(img0.expand(2, -1, -1, -1), img1.expand(2, -1, -1, -1), times).numpy()
    for j in range(2):
        np.testing.assert_allclose(out[j][:, ::2, ::2], golden[f"t{j}_out_sub"], atol=MAX_ERROR)


def test_warp_equals_the_reference_at_the_borders_too() -> None:
    image = torch.from_numpy(FILL.field("warp:x", (2, 5, 24, 40)))
    flow = torch.from_numpy(FILL.field("warp:flow", (2, 2, 24, 40), 9.0))
    np.testing.assert_allclose(backward_warp(image, flow).numpy(), np.load(DATA / "warp_24x40.npz")["out"], atol=1e-5)


def test_the_ensemble_is_symmetric_in_time() -> None:
    net = filled("4.9", "", ensemble=True)
    img0 = torch.from_numpy(FILL.to_chw(FILL.frame(64, 96, 0)))
    img1 = torch.from_numpy(FILL.to_chw(FILL.frame(64, 96, 1)))
    with torch.inference_mode():
        torch.testing.assert_close(net(img0, img1, 0.25), net(img1, img0, 0.75), atol=2e-5, rtol=0)


@pytest.mark.parametrize(("height", "width"), [(41, 57), (64, 64), (1, 130)])
def test_any_size_comes_back_in_its_size(height: int, width: int) -> None:
    img = torch.rand(1, 3, height, width)
    with torch.inference_mode():
        assert filled("4.25", "")(img, img).shape == img.shape


def test_wrong_inputs_are_named() -> None:
    net = filled("4.6", "")
    with pytest.raises(ShapeError, match="img0"):
        net(torch.rand(1, 3, 32, 32), torch.rand(1, 3, 32, 64))
    with pytest.raises(ShapeError, match="t:"):
        net(torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32), torch.rand(3))
    with pytest.raises(InvalidInputError, match="ensemble"):
        build("rife/4.25", ensemble=True)
    with pytest.raises(InvalidInputError, match="scale"):
        build("rife/4.9", scale=9.0)
