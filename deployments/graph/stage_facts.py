"""What a host knows of the stages: asked once, when they answer for the first time."""

from __future__ import annotations

from deployments.graph.stages import StageHandles, fetch_info, fetch_rife_facts
from pipeline.config import SessionSettings
from pipeline.rife.access import check_rate
from pipeline.session.drawing import needs_rife
from pipeline.stages import StageInfo


class StageFacts:
    """Belongs to one event loop.

    Args:
        handles: The stage deployments.
        family: Family that runs there.
        budget_s: Seconds that a stage has to answer.
    """

    def __init__(self, handles: StageHandles, family: str, budget_s: float) -> None:
        self._handles = handles
        self._family = family
        self._budget_s = budget_s
        self._info: StageInfo | None = None

    async def info(self) -> StageInfo:
        """What a session must know.

        Raises:
            DeadlineExceededError: A stage does not come up in time.
            StageLostError: A stage died while it was asked, more than once.
        """
        return self._info or await self.ask(self._budget_s)

    async def ask(self, budget_s: float) -> StageInfo:
        """Ask the stages anew, within so many seconds; errors as for `info`."""
        self._info = await fetch_info(self._handles, self._family, budget_s)
        return self._info

    async def check_rate(self, settings: SessionSettings) -> None:
        """Refuse settings whose frame rate the stages cannot make.

        Raises:
            InvalidInputError: The stages cannot make the frame rate.
        """
        if needs_rife(await self.info(), settings):
            check_rate(settings.fps, await fetch_rife_facts(self._handles, self._budget_s))
