"""Every network by name: `build(name, **config)` returns it in eval mode, randomly initialised.

State-dict names and shapes equal those of the public checkpoints where there are any. Weights come from `engines.weights.file`.
"""

from __future__ import annotations

import importlib
from functools import cache
from pkgutil import iter_modules
from typing import Any

import torch
from torch import nn

from kernels.errors import InvalidInputError


class UnknownNetworkError(InvalidInputError):
    """No network has this name, or it has no such option."""

    code = "unknown_network"


def names() -> tuple[str, ...]:
    """All names that `build` accepts, sorted."""
    return tuple(sorted(_factories()))


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
    factories = _factories()
    if name not in factories:
        raise UnknownNetworkError("network", name, ", ".join(names()))
    module_name, factory_name = factories[name]
    factory = getattr(importlib.import_module(module_name), factory_name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            module: nn.Module = factory(**config)
        except TypeError as error:
            raise UnknownNetworkError(f"config of {name}", ", ".join(sorted(config)), str(error)) from error
    return module.eval()


@cache
def _factories() -> dict[str, tuple[str, str]]:
    """`<folder>/<network>` -> (module, factory), of every folder here: each has its own `FACTORIES`."""
    found: dict[str, tuple[str, str]] = {}
    for folder in iter_modules(__path__):
        if folder.ispkg:
            own = importlib.import_module(f"{__name__}.{folder.name}").FACTORIES
            found |= {f"{folder.name}/{network}": where for network, where in own.items()}
    return found
