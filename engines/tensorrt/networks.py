"""The float32 network behind each engine: with public weights, or random ones to try a machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from torch import nn

from engines.ditto.checkpoints import ditto_folder, load_network
from engines.ditto.dense_motion_core import DenseMotionCore
from engines.ditto.fused_post_warp_decoder import FusedPostWarpDecoder
from engines.networks import build
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.warp_network import WarpNetwork
from engines.networks.lmdm import Lmdm
from engines.networks.rife.blocks import IFBlock
from engines.networks.rife.ifnet import IFNet
from engines.tensorrt.errors import UnknownEngineError
from engines.tensorrt.modules import LmdmStep, PackedMotionExtractor, RifeBlockStep

Load = Callable[[str], nn.Module]
"""Name as in `engines.networks.build` -> that network with its weights."""


def _post_warp_decoder(load: Load) -> nn.Module:
    warp, decoder = load("ditto/warp_network"), load("ditto/decoder")
    assert isinstance(warp, WarpNetwork) and isinstance(decoder, SpadeDecoder)  # noqa: S101 - what these names build
    return FusedPostWarpDecoder(warp, decoder)


def _dense_motion_core(load: Load) -> nn.Module:
    warp = load("ditto/warp_network")
    assert isinstance(warp, WarpNetwork)  # noqa: S101 - what this name builds
    return DenseMotionCore(warp.dense_motion_network)


def _lmdm_step(load: Load) -> nn.Module:
    lmdm = load("ditto/lmdm")
    assert isinstance(lmdm, Lmdm)  # noqa: S101 - what this name builds
    return LmdmStep(lmdm)


def _appearance_extractor(load: Load) -> nn.Module:
    return load("ditto/appearance_extractor")


def _motion_extractor(load: Load) -> nn.Module:
    return PackedMotionExtractor(load("ditto/motion_extractor"))


_DITTO: Final[dict[str, Callable[[Load], nn.Module]]] = {
    "ditto/post_warp_decoder": _post_warp_decoder,
    "ditto/dense_motion_core": _dense_motion_core,
    "ditto/lmdm_step": _lmdm_step,
    "ditto/appearance_extractor": _appearance_extractor,
    "ditto/motion_extractor": _motion_extractor,
}


def network_of(engine: str, load: Load) -> nn.Module:
    """The module that an engine runs.

    Args:
        engine: A name of the catalogue.
        load: Gives the networks it is made from.

    Returns:
        float32 on the CPU, eval mode.

    Raises:
        UnknownEngineError: No such engine.
    """
    if engine in _DITTO:
        return _DITTO[engine](load).eval().requires_grad_(False)
    family, _, rest = engine.partition("/")
    version, _, part = rest.partition("/block")
    if family != "rife" or not part.isdigit():
        raise UnknownEngineError("engine", engine[:80], ", ".join((*_DITTO, "rife/VERSION/blockN")))
    network = load(f"rife/{version}")
    assert isinstance(network, IFNet)  # noqa: S101 - what these names build
    return rife_block(network, int(part))


def rife_block(network: IFNet, index: int) -> RifeBlockStep:
    """One block of an interpolation network as an engine's module; the weights are shared with the network."""
    block = getattr(network, f"block{index}")
    assert isinstance(block, IFBlock)  # noqa: S101 - what IFNet names so
    return RifeBlockStep(block, network.scales[index], first=index == 0).eval().requires_grad_(False)


def random_weights(name: str) -> nn.Module:
    """A network with reproducible random weights."""
    return build(name)


def public_weights(folder: Path | None = None) -> Load:
    """Loads the public checkpoints that `liveanchor weights` keeps.

    Args:
        folder: Ditto's checkpoint folder; None means where `weights pull ditto` puts it.
    """

    def load(name: str) -> nn.Module:
        family, _, rest = name.partition("/")
        if family == "ditto":
            return load_network(ditto_folder(folder), rest)
        from engines.rife.sources import find_network

        return find_network(name).network

    return load
