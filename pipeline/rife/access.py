"""Whether pictures can be interpolated here, by which network, and what to do where they cannot."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.errors import InvalidInputError
from pipeline.config import RifeSettings
from pipeline.types import MOTION_FPS

CPU_ADVICE = (
    "interpolating pictures on a CPU takes many times as long as the video lasts; ask for 25 frames/s, use a family that makes "
    "frames in motion space (mini), give the stage rife a GPU, or set rife.allow_cpu: true and wait"
)


@dataclass(frozen=True)
class RifeFacts:
    """What the stage `rife` can do.

    Attributes:
        interpolates: Whether it makes pictures between pictures.
        reason: Why not, and what to do; empty where it does.
        network: Name of the network that runs, e.g. `rife/4.25`; empty where none does.
        device: `cpu` or `cuda`.
    """

    interpolates: bool
    reason: str
    network: str = ""
    device: str = ""


def why_not(settings: RifeSettings, device: str) -> str:
    """Why nothing is interpolated on this device; empty where it may be."""
    return CPU_ADVICE if device == "cpu" and not settings.allow_cpu else ""


def network_name(settings: RifeSettings) -> str | None:
    """As `engines.rife.interpolator.load_interpolator` wants it; None means the best one that is here."""
    return None if settings.network == "auto" else f"rife/{settings.network}"


def refuse_rate(fps: float, reason: str) -> InvalidInputError:
    """The error of a frame rate that only `rife` could make."""
    return InvalidInputError(
        "fps", f"{fps:g}", str(MOTION_FPS), f"{fps:g} frames/s need interpolated pictures: {reason}"
    )


def check_rate(fps: float, facts: RifeFacts) -> None:
    """Refuse a frame rate that needs interpolated pictures (`pipeline.session.drawing.needs_rife`), where nothing can do that.

    Args:
        fps: 50 or 59.94.
        facts: What the stage says about itself.

    Raises:
        InvalidInputError: It names the reason and what to do.
    """
    if not facts.interpolates:
        raise refuse_rate(fps, facts.reason)
