"""LMDM and its DDIM sampling against stored outputs of the reference under the documented weight formula.

`LIVEANCHOR_GOLDEN_DIR` (its `ditto` folder) and `LIVEANCHOR_GOLDEN_SALT` point at another golden set of the same form.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from engines.diffusion import alphas_cumprod, ddim_sample, ddim_steps
from engines.networks import build
from engines.networks.lmdm import Lmdm

DATA = Path(__file__).resolve().parents[1] / "data" / "ditto"
GOLDEN = Path(os.environ["LIVEANCHOR_GOLDEN_DIR"]) / "ditto" if "LIVEANCHOR_GOLDEN_DIR" in os.environ else DATA
SALT = os.environ.get("LIVEANCHOR_GOLDEN_SALT", "A/")
MAX_ERROR = 5e-4


def load_fill() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ditto_fill", DATA / "fill.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILL = load_fill()


def normal(name: str, shape: tuple[int, ...], scale: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(FILL.normal(name, shape, SALT, scale))


@pytest.fixture(scope="module")
def lmdm() -> Lmdm:
    module = build("ditto/lmdm")
    FILL.fill_module(module, SALT)
    return module


@pytest.fixture(scope="module")
def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        normal("lmdm/x", (1, 80, 265)),
        normal("lmdm/cond_frame", (1, 265), 0.5),
        normal("lmdm/cond", (1, 80, 1103), 0.5),
    )


def assert_sample(golden: dict[str, np.ndarray], name: str, value: torch.Tensor) -> None:
    array = value.numpy()
    assert array.shape == tuple(golden[f"{name}__shape"])
    strided = array.reshape(-1)[:: int(golden[f"{name}__stride"])]
    np.testing.assert_allclose(strided, golden[f"{name}__sample"], atol=MAX_ERROR, rtol=0)
    stats = [array.mean(dtype=np.float64), array.std(dtype=np.float64), array.min(), array.max()]
    np.testing.assert_allclose(stats, golden[f"{name}__stats"], atol=MAX_ERROR, rtol=0)


def test_names_and_shapes_are_those_of_the_public_checkpoint(lmdm: Lmdm) -> None:
    manifest = json.loads((DATA / "lmdm_manifest.json").read_text())["state_dict"]
    ours = {key: list(value.shape) for key, value in lmdm.state_dict().items()}
    assert ours == {entry["key"]: entry["shape"] for entry in manifest}


def test_schedule() -> None:
    with np.load(GOLDEN / "lmdm.npz") as golden:
        np.testing.assert_allclose(alphas_cumprod().numpy(), golden["alphas_cumprod"], atol=1e-7, rtol=0)


@pytest.mark.parametrize("timestep", [999, 500, 33, 0])
def test_one_prediction(lmdm: Lmdm, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], timestep: int) -> None:
    x, cond_frame, cond = inputs
    t = torch.tensor([timestep])
    with np.load(GOLDEN / "lmdm.npz") as golden, torch.inference_mode():
        assert_sample(golden, f"x_start_t{timestep}", lmdm(x, cond_frame, cond, t))
        cache = lmdm.encode_condition(cond_frame, cond, t)
        conditional, unconditional = lmdm.denoise_branches(x, 0, cache).chunk(2)
        assert_sample(golden, f"cond_t{timestep}", conditional)
        assert_sample(golden, f"uncond_t{timestep}", unconditional)


@pytest.mark.parametrize("count", [10, 50])
def test_ddim(lmdm: Lmdm, count: int) -> None:
    schedule = ddim_steps(count)
    with np.load(GOLDEN / f"ddim_{count}.npz") as golden:
        stored = {key: golden[key] for key in golden.files}
    assert [[step.time, step.next_time] for step in schedule] == stored["time_pairs"].tolist()
    np.testing.assert_allclose([step.sigma for step in schedule[:-1]], stored["sigma"], atol=1e-6)
    np.testing.assert_allclose([step.direction for step in schedule[:-1]], stored["c"], atol=5e-5)
    np.testing.assert_allclose([step.keep for step in schedule[:-1]], stored["alpha_next_sqrt"], atol=1e-6)
    cond_frame, cond = normal("ddim/cond_frame", (1, 265), 0.5), normal("ddim/cond", (1, 80, 1103), 0.5)
    noise = torch.stack([normal(f"ddim/{count}/randn/{k}", (1, 80, 265)) for k in range(count)])
    with torch.inference_mode():
        cache = lmdm.encode_condition(cond_frame, cond, torch.tensor([step.time for step in schedule]))
        x = ddim_sample(lambda x, i: lmdm.denoise(x, i, cache), noise[-1], noise[:-1], schedule)
    np.testing.assert_allclose(x.numpy(), stored["x"], atol=MAX_ERROR, rtol=0)
