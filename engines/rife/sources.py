"""Which interpolation network runs here: pulled public weights where there are any, else the embedded small one."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from engines.networks.rife.ifnet import IFNet
from engines.rife.flownet import FAMILY, PUBLIC_VERSIONS, Flownet, build_flownet, read_flownet
from engines.weights.errors import WeightsError
from engines.weights.file import WeightsFileError, build_network, read_weights
from engines.weights.home import weights_dir
from kernels.errors import InvalidInputError

EMBEDDED: Final = "rife/mini"
EMBEDDED_FILE: Final = "mini.safetensors"
NAMES: Final = (*(f"rife/{version}" for version in PUBLIC_VERSIONS), EMBEDDED)
"""What can be asked for."""
SETS: Final = ("rife", "rife40")
"""Weight sets of the registry that may hold a checkpoint, the first with one wins."""
_CHECKPOINTS: Final = ("*.zip", "flownet*.pkl", "*.safetensors")


@dataclass(frozen=True)
class RifeNetwork:
    """A network with its weights.

    Attributes:
        name: As for `engines.networks.build`.
        network: float32 on the CPU, eval mode, without gradients.
        source: File that it came from.
    """

    name: str
    network: IFNet
    source: Path


def embedded_folder() -> Path:
    """Where the weights that come with the package lie."""
    return Path(str(files("engines"))) / "weights_data" / FAMILY


def checkpoints(folder: Path) -> list[Path]:
    """Files of a folder that may hold a network."""
    return [path for pattern in _CHECKPOINTS for path in sorted(folder.glob(f"**/{pattern}")) if path.is_file()]


def find_network(name: str | None = None, home: Path | str | None = None) -> RifeNetwork:
    """The network asked for, or the best one that is here.

    Args:
        name: One of `NAMES`; None means pulled weights, else the embedded network.
        home: Data folder; None means `LIVEANCHOR_HOME` or its default.

    Raises:
        InvalidInputError: No such name.
        WeightsError: Its weights are not here; the message says how to get them.
        WeightsFileError: A file is damaged.
    """
    if name is not None and name not in NAMES:
        raise InvalidInputError("interpolation network", name, ", ".join(NAMES))
    if name != EMBEDDED:
        for path in (path for weights in SETS for path in checkpoints(weights_dir(weights, home))):
            flownet = read_flownet(path)
            if name is None or name == f"rife/{flownet.version}":
                return RifeNetwork(f"rife/{flownet.version}", build_flownet(flownet), path)
        if name is not None:
            advice = (
                "`liveanchor weights pull rife` (4.25), `pull rife40`, or `weights import DIR --name rife` for others"
            )
            raise WeightsError(name, f"is not here: {advice}")
    return load_embedded(embedded_folder() / EMBEDDED_FILE)


def load_embedded(path: Path) -> RifeNetwork:
    """The small network from a weights file of ours."""
    weights = read_weights(path, family=FAMILY, network=EMBEDDED)
    network = build_network(weights)
    if not isinstance(network, IFNet):
        raise WeightsFileError(str(path), "network", "is no interpolation network")
    return RifeNetwork(EMBEDDED, network.requires_grad_(False), path)


def check_checkpoints(folder: Path) -> tuple[str, ...]:
    """Every checkpoint of a folder can be read and is a network that is known here.

    Returns:
        Per file, for people: which network it is, and how many of its tensors that network does not use.

    Raises:
        WeightsFileError: For the first file at fault, or where there is none.
    """
    found = checkpoints(folder)
    if not found:
        raise WeightsFileError(str(folder), "", "holds no flownet.pkl, no archive with one and no safetensors file")
    return tuple(_describe(read_flownet(path)) for path in found)


def _describe(flownet: Flownet) -> str:
    said = f"{flownet.path.name}: rife/{flownet.version}"
    if not flownet.extras:
        return said
    parts = sorted({name.split(".")[0] for name in flownet.extras})
    return f"{said}; {len(flownet.extras)} tensors that it does not use are left out ({', '.join(parts[:6])[:120]})"
