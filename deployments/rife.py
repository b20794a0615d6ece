"""Deployment `Rife`."""

from __future__ import annotations

from deployments.calls import RifeFacts
from deployments.config import StageSettings
from deployments.logs import configure_replica_logs
from kernels.errors import InvalidInputError

_DOUBLES_ITSELF: frozenset[str] = frozenset({"mini"})


def doubles_in_motion_space(family: str) -> bool:
    """Whether the family's renderer makes 50 frames/s out of motion, so that `Rife` is never called."""
    return family in _DOUBLES_ITSELF


def check_rate(fps: int, family: str, facts: RifeFacts) -> None:
    """Refuse a frame rate that nothing here can make.

    Raises:
        InvalidInputError: 50 frames/s of a family that needs an interpolator, and there is none.
    """
    if fps == 50 and not doubles_in_motion_space(family) and not facts.interpolates:
        raise InvalidInputError("fps", "50", "25", f"the family {family} cannot make 50 frames/s here: {facts.reason}")


class RifeReplica:
    """Says what this stage can do. It carries no interpolation network in this release, so it advertises exactly that.

    At 50 frames/s `mini` interpolates motion in `Renderer`; a family that would need pictures interpolated is refused at 50.

    Args:
        settings: This stage's own.
    """

    def __init__(self, settings: StageSettings) -> None:
        configure_replica_logs()
        self._family = settings.model.family

    def facts(self) -> RifeFacts:
        """What can be interpolated here, and why not more."""
        reason = (
            "frames in between are made in motion space by the renderer"
            if doubles_in_motion_space(self._family)
            else "this release carries no interpolation network"
        )
        return RifeFacts(interpolates=False, reason=reason)
