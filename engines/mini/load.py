"""The `mini` family's engines: its two networks, loaded from the embedded weights, behind runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from engines.mini import FAMILY
from engines.mini.motion_space import MotionSpace
from engines.mini.window_sampler import WindowSampler
from engines.networks import build
from engines.networks.lmdm import Lmdm
from engines.networks.mini.speech_encoder import SpeechEncoder
from engines.runtimes.protocol import Runtime
from engines.runtimes.torch import TorchRuntime
from engines.weights.file import build_network, load_strictly, read_weights

DDIM_STEPS = 4
ENCODER_FILE = "speech_encoder.safetensors"
LMDM_FILE = "lmdm.safetensors"
SPACE_PREFIX = "space."
"""Prefix, inside the LMDM's file, of the constants of its motion space."""


@dataclass(frozen=True)
class MiniNetworks:
    """The family's networks, before any runtime.

    Attributes:
        encoder: The speech encoder.
        lmdm: The motion model.
        space: Its motion space.
        version: Version of the pair; they are trained together.
    """

    encoder: SpeechEncoder
    lmdm: Lmdm
    space: MotionSpace
    version: str


@dataclass(frozen=True)
class MiniEngines:
    """The family's engines.

    Attributes:
        encoder: PCM windows (B, n) -> rows (B, t, row_dim).
        sampler: (history, cond, noise) -> motion, see `engines.mini.window_sampler`.
        row_dim: Width of a row.
        left_samples: Context that an encoder window needs.
        lookahead_samples: Look-ahead that it needs.
        seq_frames: Frames of a motion window.
        steps: DDIM steps.
        dofs: Degrees of freedom of the noise.
        silence_row: float32 (row_dim,), the row for digital silence.
        version: Version of the weights.
    """

    encoder: Runtime
    sampler: Runtime
    row_dim: int
    left_samples: int
    lookahead_samples: int
    seq_frames: int
    steps: int
    dofs: int
    silence_row: torch.Tensor
    version: str


def weights_folder() -> Path:
    """Where the embedded weights lie."""
    return Path(__file__).resolve().parents[1] / "weights_data" / FAMILY


def load_networks(folder: Path | None = None) -> MiniNetworks:
    """Load both networks.

    Args:
        folder: Folder with both files; None means the embedded ones.

    Raises:
        WeightsFileError: A file is missing, damaged, or the two do not belong together.
    """
    folder = folder or weights_folder()
    encoder_weights = read_weights(folder / ENCODER_FILE, family=FAMILY, network="mini/speech_encoder")
    lmdm_weights = read_weights(folder / LMDM_FILE, family=FAMILY, network="mini/lmdm")
    encoder = cast(SpeechEncoder, build_network(encoder_weights))
    lmdm = cast(Lmdm, build_network(lmdm_weights, lmdm_weights.without(SPACE_PREFIX)))
    space = MotionSpace()
    load_strictly(space, lmdm_weights.part(SPACE_PREFIX), lmdm_weights.path)
    return MiniNetworks(encoder, lmdm, space, f"{encoder_weights.version}+{lmdm_weights.version}")


def random_networks(seed: int = 0) -> MiniNetworks:
    """Both networks with random weights, for tests and measurements of speed."""
    encoder = cast(SpeechEncoder, build("mini/speech_encoder", seed=seed))
    lmdm = cast(Lmdm, build("mini/lmdm", seed=seed))
    return MiniNetworks(encoder, lmdm, MotionSpace(), f"random-{seed}")


def make_engines(networks: MiniNetworks, device: torch.device | str = "cpu", steps: int = DDIM_STEPS) -> MiniEngines:
    """Put networks behind the eager torch runtime."""
    encoder = networks.encoder.eval()
    sampler = WindowSampler(networks.lmdm, networks.space, steps=steps)
    with torch.inference_mode():
        silence = encoder(torch.zeros(1, encoder.window_samples(1)))[0, 0].clone()
    return MiniEngines(
        encoder=TorchRuntime(encoder, device),
        sampler=TorchRuntime(sampler, device),
        row_dim=encoder.row_dim,
        left_samples=encoder.left_samples,
        lookahead_samples=encoder.lookahead_samples,
        seq_frames=networks.lmdm.seq_frames,
        steps=steps,
        dofs=networks.space.dofs,
        silence_row=silence,
        version=networks.version,
    )


def load_engines(
    device: torch.device | str = "cpu", steps: int = DDIM_STEPS, folder: Path | None = None
) -> MiniEngines:
    """Load the embedded weights and make engines; see `load_networks` for errors."""
    return make_engines(load_networks(folder), device, steps)
