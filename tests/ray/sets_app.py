"""The four GPU stages without their models: the product's names, options and policy, for tests of where replicas are put."""

from __future__ import annotations

import asyncio
from typing import Any

from ray import serve
from ray.serve import Application

from deployments.config import DEPLOYMENT_NAMES, STAGE_NAMES


class HollowStage:
    """Holds calls for as long as it is told."""

    async def hold(self, seconds: float) -> None:
        """Is busy, as far as Ray Serve can see."""
        await asyncio.sleep(seconds)


class Front:
    """Gives calls to the stages."""

    def __init__(self, *stages: Any) -> None:
        self._stages = dict(zip(STAGE_NAMES, stages, strict=True))

    async def busy(self, stage: str, calls: int, seconds: float) -> None:
        """Keep so many calls in flight at one stage."""
        await asyncio.gather(*(self._stages[stage].hold.remote(seconds) for _ in range(calls)))


def build(args: dict[str, Any]) -> Application:
    """Bind the stages behind a front; options come from the document."""
    stages = [serve.deployment(name=DEPLOYMENT_NAMES[name])(HollowStage).bind() for name in STAGE_NAMES]
    application: Application = serve.deployment(name="Front")(Front).bind(*stages)
    return application
