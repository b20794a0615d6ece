"""What the golden tests of the Ditto family share: the golden set in use, and comparison of strided samples.

`LIVEANCHOR_GOLDEN_DIR` (its `ditto` folder, or the files themselves) and `LIVEANCHOR_GOLDEN_SALT` (see `benchmarks.ditto.formula`)
point at another golden set of the same form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from benchmarks.ditto.formula import FILL, SALT, filled
from engines.networks.ditto.dense_motion import DenseMotion
from engines.networks.ditto.warp_network import WarpNetwork

DATA = Path(__file__).resolve().parents[1] / "data" / "ditto"


def golden_folder(family: str, committed: Path) -> Path:
    """Where a family's golden files lie: in the set that `LIVEANCHOR_GOLDEN_DIR` names, else in the committed copy.

    A folder of the family's name counts whatever it holds, so that a set with other files is not passed over in silence.
    """
    named = os.environ.get("LIVEANCHOR_GOLDEN_DIR")
    if not named:
        return committed
    if not Path(named).is_dir():
        raise FileNotFoundError(f"LIVEANCHOR_GOLDEN_DIR: no folder {named}")
    if (Path(named) / family).is_dir():
        return Path(named) / family
    files = [path.name for path in committed.glob("*.npz")]
    return Path(named) if any((Path(named) / name).is_file() for name in files) else committed


GOLDEN = golden_folder("ditto", DATA)


@cache
def golden(name: str) -> Mapping[str, np.ndarray]:
    """One stored file of the golden set in use."""
    with np.load(GOLDEN / f"{name}.npz") as archive:
        return {key: archive[key] for key in archive.files}


def normal(name: str, shape: tuple[int, ...], scale: float = 1.0) -> torch.Tensor:
    """N(name, shape, scale) of the golden README."""
    return torch.from_numpy(FILL.normal(name, shape, SALT, scale))


def uniform(name: str, shape: tuple[int, ...], low: float, high: float) -> torch.Tensor:
    """U(name, shape, low, high) of the golden README."""
    return torch.from_numpy(FILL.uniform(name, shape, SALT, low, high))


@dataclass(frozen=True)
class Warped:
    """One run of the warp network on the inputs of the golden README: what went in, its dense motion, what came out."""

    volume: torch.Tensor
    source: torch.Tensor
    driving: torch.Tensor
    motion: DenseMotion
    out: torch.Tensor


@cache
def warped() -> Warped:
    """See `Warped`; run once per process (seconds of CPU), so treat it as read-only."""
    network = filled("warp_network")
    assert isinstance(network, WarpNetwork)
    volume = normal("warp_network/feature_3d", (1, 32, 16, 64, 64))
    source = uniform("warp_network/kp_source", (1, 21, 3), -0.7, 0.7)
    driving = source + normal("warp_network/kp_delta", (1, 21, 3), 0.06)
    seen: list[DenseMotion] = []
    hook = network.dense_motion_network.register_forward_hook(lambda module, given, made: seen.append(made))
    with torch.inference_mode():
        out = network(volume, source, driving)
    hook.remove()
    return Warped(volume, source, driving, seen[0], out)


def bins(name: str) -> np.ndarray:
    """Pose logits (1, 66) around a drawn angle, `bins(name)` of the golden README."""
    centre = 33 + float(FILL.uniform(f"{name}/c", (1,), SALT, -4, 4)[0])
    noise = FILL.normal64(f"{name}/n", (66,), SALT)
    return np.asarray(-((np.arange(66) - centre) ** 2) / 8 + 0.5 * noise, np.float32)[None]


def motion_info(name: str) -> dict[str, np.ndarray]:
    """Motion of one face with its canonical keypoints, `motion_info(name)` of the golden README."""
    return {
        **{angle: bins(f"{name}/{angle}") for angle in ("pitch", "yaw", "roll")},
        "t": FILL.normal(f"{name}/t", (1, 3), SALT, 0.05),
        "exp": FILL.normal(f"{name}/exp", (1, 63), SALT, 0.02),
        "scale": FILL.uniform(f"{name}/scale", (1, 1), SALT, 1.1, 1.5),
        "kp": FILL.normal(f"{name}/kp", (1, 63), SALT, 0.3),
    }


def manifest_shapes(network: str) -> dict[str, tuple[int, ...]]:
    """State-dict keys and shapes of the public checkpoint."""
    listed = json.loads((DATA / "manifests" / f"{network}.json").read_text(encoding="utf-8"))["state_dict"]
    return {entry["key"]: tuple(entry["shape"]) for entry in listed}


def assert_golden(stored: Mapping[str, np.ndarray], name: str, value: torch.Tensor, gate: float) -> None:
    """Compare an output with its stored copy, whole or as a strided sample with statistics."""
    array = value.numpy()
    if name in stored:
        assert array.shape == stored[name].shape, (name, array.shape)
        error = np.abs(array - stored[name]).max()
    else:
        assert array.shape == tuple(stored[f"{name}__shape"]), (name, array.shape)
        sample = array.reshape(-1)[:: int(stored[f"{name}__stride"])]
        error = np.abs(sample - stored[f"{name}__sample"]).max()
        stats = [array.mean(dtype=np.float64), array.std(dtype=np.float64), array.min(), array.max()]
        np.testing.assert_allclose(stats, stored[f"{name}__stats"], atol=gate, err_msg=name)
    if f"{name}__chan_mean" in stored and array.ndim > 1:
        means = array.mean(axis=(0, *range(2, array.ndim)), dtype=np.float64)
        np.testing.assert_allclose(means, stored[f"{name}__chan_mean"].reshape(-1), atol=gate, err_msg=name)
    assert error <= gate, f"{name}: off by {error:.2e}, gate {gate:.0e}"
