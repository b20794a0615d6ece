"""What an engine is built for: a compute capability, and the card where the library ties engines to one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import torch

from engines.tensorrt.errors import TensorRtMissingError
from engines.tensorrt.library import Library
from kernels.errors import InvalidInputError

ANY_CARD: Final = "any"
_NAME: Final = re.compile(r"^sm_?(\d{2,3})$", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """Where an engine will run.

    Attributes:
        capability: `sm_` and the compute capability without its point, e.g. `sm_120`.
        card: The GPU's name, or `any` where an engine serves every card of the capability.
        here: True when it is the card in this machine.
    """

    capability: str
    card: str
    here: bool

    def __str__(self) -> str:
        """For people."""
        return self.capability if self.card == ANY_CARD else f"{self.card} ({self.capability})"


def parse_capability(text: str) -> str:
    """`sm_120`, `SM120` -> `sm_120`.

    Raises:
        InvalidInputError: Something else.
    """
    match = _NAME.match(text.strip())
    if match is None:
        raise InvalidInputError("--for", text[:40], "sm_ and a compute capability, e.g. sm_120")
    return f"sm_{match.group(1)}"


def choose_target(library: Library, capability: str | None = None, device: int = 0) -> Target:
    """What to build for with a library.

    Args:
        library: What builds.
        capability: Compute capability of a card that need not be here; None: the card in this machine.
        device: Index of that card.

    Raises:
        InvalidInputError: The library does not build for that capability, or not for a card that is elsewhere.
        TensorRtMissingError: No capability was named and there is no GPU, or the library does not support it.
    """
    supported = library.capabilities()
    local = _local_capability(device)
    if capability is None and local is None:
        what = (
            f"name one of {', '.join(supported)} (--for)"
            if supported
            else "engines are built on the machine they run on"
        )
        raise TensorRtMissingError("there is no GPU to build for", what)
    if capability is not None:
        wanted = parse_capability(capability)
        if library.portable and wanted not in supported:
            raise InvalidInputError("--for", wanted, ", ".join(supported))
        if not library.portable and wanted != local:
            allowed = f"{local}, the card in this machine" if local else "nothing: this machine has no GPU"
            raise InvalidInputError(
                "--for", wanted, allowed, f"{library.flavour} builds only for the card that is here"
            )
        return Target(wanted, _card(library, device), wanted == local)
    chosen = str(local)
    if library.portable and chosen not in supported:
        reason = f"{library.flavour} {library.version} does not run on {chosen} (it does on {', '.join(supported)})"
        raise TensorRtMissingError(reason, "use the classic library: pip install 'liveanchor[tensorrt]'")
    return Target(chosen, _card(library, device), True)


def _card(library: Library, device: int) -> str:
    return ANY_CARD if library.portable else torch.cuda.get_device_name(device)


def _local_capability(device: int) -> str | None:
    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"
