"""Every network by name: `build(name, **config)` returns it in eval mode, randomly initialised.

State-dict names and shapes equal those of the public checkpoints where there are any. Weights come from `engines.weights.file`.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

import torch
from torch import nn

from kernels.errors import InvalidInputError

_FACTORIES: Final[dict[str, tuple[str, str]]] = {
    "ditto/appearance_extractor": ("engines.networks.ditto.appearance_extractor", "AppearanceExtractor"),
    "ditto/decoder": ("engines.networks.ditto.decoder", "SpadeDecoder"),
    "ditto/motion_extractor": ("engines.networks.ditto.motion_extractor", "MotionExtractor"),
    "ditto/stitch_network": ("engines.networks.ditto.stitch_network", "StitchNetwork"),
    "ditto/warp_network": ("engines.networks.ditto.warp_network", "WarpNetwork"),
    "ditto/lmdm": ("engines.networks.lmdm", "build_ditto"),
    "mini/lmdm": ("engines.networks.lmdm", "build_mini"),
    "rife/4.0": ("engines.networks.rife.ifnet", "build_4_0"),
    "rife/4.25": ("engines.networks.rife.ifnet", "build_4_25"),
    "rife/4.6": ("engines.networks.rife.ifnet", "build_4_6"),
    "rife/4.9": ("engines.networks.rife.ifnet", "build_4_9"),
    "rife/mini": ("engines.networks.rife.ifnet", "build_mini"),
    "mini/speech_encoder": ("engines.networks.mini.speech_encoder", "build_speech_encoder"),
}
"""Network name -> (module, factory). The module is imported at first use."""


class UnknownNetworkError(InvalidInputError):
    """No network has this name, or it has no such option."""

    code = "unknown_network"


def names() -> tuple[str, ...]:
    """All names that `build` accepts, sorted."""
    return tuple(sorted(_FACTORIES))


def build(name: str, *, seed: int = 0, **config: Any) -> nn.Module:
    """Build a network in eval mode with reproducible random weights.

    Args:
        name: One of `names()`, e.g. `"ditto/lmdm"`.
        seed: Seed of the initialisation; the caller's random state is left untouched.
        config: Options of that network, e.g. `guidance_weight=1.0`.

    Returns:
        The module, float32 on the CPU, `eval()`, gradients as torch makes them.

    Raises:
        UnknownNetworkError: Unknown name or option.
    """
    if name not in _FACTORIES:
        raise UnknownNetworkError("network", name, ", ".join(names()))
    module_name, factory_name = _FACTORIES[name]
    factory = getattr(importlib.import_module(module_name), factory_name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            module: nn.Module = factory(**config)
        except TypeError as error:
            raise UnknownNetworkError(f"config of {name}", ", ".join(sorted(config)), str(error)) from error
    return module.eval()
