"""One set of stages (a replica of each on one GPU) as its replicas report it: what it bears, and whether it lags behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deployments.graph.session_cost import StageCost, tokens, weight

RENDERER: Final = "renderer"
"""The stage that makes a set: where it is, sessions can be drawn."""
SET_LOST_S: Final = 10.0
"""Seconds without a report after which a set counts as gone."""
SLOW_WAIT_MS: Final = 80.0
"""Milliseconds that chunks may wait for their batch (95th percentile) before their set counts as slow."""
CROWDED: Final = 0.6
"""Share of a set's tokens from which on its sessions should ask the stages less often."""
ROOMY: Final = 0.5
"""Share below which they may ask as often as they like again."""


@dataclass(frozen=True)
class StageReport:
    """What one stage replica says about itself.

    Attributes:
        set_id: Name of the set, the id of the Ray node that its GPU belongs to.
        cost: What one second of speech takes of the stage.
        wait_ms: 95th percentile of the time that chunks waited for their batch lately, in milliseconds.
        avatars: Ids of the avatars that the replica has prepared; only the renderer says.
        doubles: Whether the replica draws frames above 25 per second itself; only the renderer says.
        most: Sessions that the operator allows on the set; None for as many as fit.
    """

    set_id: str
    cost: StageCost
    wait_ms: float = 0.0
    avatars: frozenset[str] = frozenset()
    doubles: bool = False
    most: int | None = None


class StageSet:
    """The stages of one set, as they last reported.

    Attributes:
        slow_since: When chunks began to wait too long, monotonic seconds; None while they do not.
    """

    def __init__(self) -> None:
        self._reports: dict[str, tuple[StageReport, float]] = {}
        self.slow_since: float | None = None
        self._crowded = False

    def take(self, report: StageReport, now: float) -> None:
        """Take in what one of its replicas says."""
        self._reports[report.cost.stage] = (report, now)
        slow = any(one.wait_ms > SLOW_WAIT_MS for one, _ in self._reports.values())
        self.slow_since = (now if self.slow_since is None else self.slow_since) if slow else None

    def forget_silent(self, now: float) -> None:
        """Forget replicas that have not reported for `SET_LOST_S`."""
        self._reports = {name: one for name, one in self._reports.items() if now - one[1] <= SET_LOST_S}

    @property
    def draws(self) -> bool:
        """Whether it has what draws pictures."""
        return RENDERER in self._reports

    @property
    def renderer(self) -> StageReport:
        """What its renderer last said."""
        return self._reports[RENDERER][0]

    @property
    def costs(self) -> list[StageCost]:
        """What a second of speech takes of each of its stages."""
        return [one.cost for one, _ in self._reports.values()]

    @property
    def tokens(self) -> float:
        """Sessions that can speak at once; infinite where nothing bounds them."""
        fit = tokens(self.costs)
        return fit if self.renderer.most is None else min(fit, float(self.renderer.most))

    def is_crowded(self, used: float) -> bool:
        """Whether sessions should ask it less often, with so many tokens taken."""
        share = used / self.tokens
        self._crowded = share >= CROWDED or (self._crowded and share >= ROOMY)
        return self._crowded

    def weight(self, fps: float) -> float:
        """Tokens of a session of so many frames per second."""
        return weight(self.costs, fps, self.renderer.doubles)
